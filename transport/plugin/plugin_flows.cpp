#include "transport/plugin/plugin_flows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plait::transport {
namespace {

using net_interface::Result;

void require_size(const PluginDevice& device, const char* call, std::size_t bytes) {
  if (bytes > device.properties.largest_message)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} of {} bytes, but device {} takes {} at most", device.plugin->title(),
                    call, bytes, device.properties.name, device.properties.largest_message));
}

}  // namespace

PluginRegistration::PluginRegistration(const PluginDevice& device, void* comm, void* data,
                                       std::size_t bytes, MemoryKind kind)
    : plugin_(device.plugin), comm_(comm), on_device_(kind != MemoryKind::host) {
  // Plug-ins for AMD's GPUs use the same number for their memory.
  const int type = on_device_ ? net_interface::device_pointers : net_interface::host_pointers;
  if (on_device_ && register_dma_buf(device, data, bytes)) return;
  if ((device.properties.pointer_support & type) == 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: device {} can't use {} memory", plugin_->title(),
                            device.properties.name, on_device_ ? "a GPU's" : "host"));
  plugin_->check((*plugin_)->memory().reg_mr(comm, data, bytes, type, &memory_), "regMr");
}

/// False if the plug-in takes no dma-bufs, or the device makes none.
bool PluginRegistration::register_dma_buf(const PluginDevice& device, void* data,
                                          std::size_t bytes) {
  if ((device.properties.pointer_support & net_interface::dmabuf_pointers) == 0 ||
      !device.export_dma_buf)
    return false;
  const DmaBuf buffer = device.export_dma_buf(data, bytes);
  if (!buffer.descriptor.valid()) return false;
  plugin_->check(
      (*plugin_)->memory().reg_mr_dmabuf(comm_, data, bytes, net_interface::device_pointers,
                                         buffer.offset, buffer.descriptor.get(), &memory_),
      "regMrDmaBuf");
  return true;
}

PluginRegistration::~PluginRegistration() {
  if (origin_.is_here()) (*plugin_)->memory().dereg_mr(comm_, memory_);
}

PluginRequests::Entry* PluginRequests::free_entry() {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& each) { return !each.in_use; });
  return entry == entries_.end() ? nullptr : &*entry;
}

void PluginRequests::check(Result result, const char* call, std::optional<Error>& failure) {
  try {
    plugin_->check(result, call, true);
  } catch (const Error& error) {
    failure = error;
    throw;
  }
}

void PluginRequests::require_whole() const {
  for (const auto& failure : {error_, start_error_})
    if (failure) throw Error(*failure);
}

bool PluginRequests::is_done(Entry& entry) {
  int done = 0, bytes = 0;
  check((*plugin_)->requests().test(entry.request, &done, &bytes), "test", error_);
  if (done == 0) return false;
  if (!entry.flushes) entry.bytes = static_cast<std::size_t>(bytes);
  return true;
}

bool PluginRequests::test(Request request, void* comm, std::size_t* received) {
  if (error_) throw Error(*error_);
  auto& entry = *static_cast<Entry*>(request);
  if (!is_done(entry)) return false;
  if (comm != nullptr && entry.bytes > entry.room) {
    error_.emplace(ErrorCode::bootstrap,
                   fmt::format("{}: a message of {} bytes came for a buffer of {} bytes",
                               plugin_->title(), entry.bytes, entry.room));
    throw Error(*error_);
  }
  const bool wants_flush =
      comm != nullptr && !entry.flushes && entry.memory->on_device() && entry.bytes > 0;
  if (wants_flush) {
    void* memory = entry.memory->get();
    int bytes = static_cast<int>(entry.bytes);
    entry.flushes = true;
    check((*plugin_)->requests().iflush(comm, 1, &entry.data, &bytes, &memory, &entry.request),
          "iflush", error_);
    // Null: this network needs no flush.
    if (entry.request != nullptr && !is_done(entry)) return false;
  }
  if (received != nullptr) *received = entry.bytes;
  entry = Entry();
  return true;
}

PluginSendFlow::PluginSendFlow(const PluginDevice& device, void* comm)
    : device_(device), comm_(comm), requests_(device.plugin) {}

PluginSendFlow::~PluginSendFlow() {
  if (origin_.is_here()) (*device_.plugin)->requests().close_send(comm_);
}

std::unique_ptr<Registration> PluginSendFlow::register_memory(void* data, std::size_t bytes,
                                                              MemoryKind kind) {
  requests_.require_whole();
  return std::make_unique<PluginRegistration>(device_, comm_, data, bytes, kind);
}

bool PluginSendFlow::test(Request request, std::size_t*) {
  return requests_.test(request, nullptr, nullptr);
}

Request PluginSendFlow::isend(const void* data, std::size_t bytes, Registration& memory) {
  requests_.require_whole();
  require_size(device_, "isend", bytes);
  PluginRequests::Entry* const entry = requests_.free_entry();
  if (entry == nullptr) return nullptr;
  auto& registered = static_cast<PluginRegistration&>(memory);
  void* request = nullptr;
  requests_.check_started(
      (*device_.plugin)->isend(comm_, const_cast<void*>(data), bytes, registered.get(), &request),
      "isend");
  if (request == nullptr) return nullptr;
  *entry = {.in_use = true, .request = request, .room = bytes, .memory = &registered};
  return entry;
}

PluginReceiveFlow::PluginReceiveFlow(const PluginDevice& device, void* comm)
    : device_(device), comm_(comm), requests_(device.plugin) {}

PluginReceiveFlow::~PluginReceiveFlow() {
  if (origin_.is_here()) (*device_.plugin)->requests().close_recv(comm_);
}

std::unique_ptr<Registration> PluginReceiveFlow::register_memory(void* data, std::size_t bytes,
                                                                 MemoryKind kind) {
  requests_.require_whole();
  return std::make_unique<PluginRegistration>(device_, comm_, data, bytes, kind);
}

bool PluginReceiveFlow::test(Request request, std::size_t* received) {
  return requests_.test(request, comm_, received);
}

Request PluginReceiveFlow::irecv(void* data, std::size_t bytes, Registration& memory) {
  requests_.require_whole();
  require_size(device_, "irecv", bytes);
  PluginRequests::Entry* const entry = requests_.free_entry();
  if (entry == nullptr) return nullptr;
  auto& registered = static_cast<PluginRegistration&>(memory);
  void* request = nullptr;
  requests_.check_started((*device_.plugin)->irecv(comm_, data, bytes, registered.get(), &request),
                          "irecv");
  if (request == nullptr) return nullptr;
  *entry = {.in_use = true, .request = request, .data = data, .room = bytes, .memory = &registered};
  return entry;
}

}  // namespace plait::transport
