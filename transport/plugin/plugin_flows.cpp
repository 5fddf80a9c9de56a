#include "transport/plugin/plugin_flows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plait::transport {
using net_interface::Result;

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

PluginEnd::~PluginEnd() {
  if (!origin_.is_here()) return;
  const auto& calls = (*device_.plugin)->requests();
  (receives_ ? calls.close_recv : calls.close_send)(comm_);
}

void PluginEnd::check(Result result, const char* call, std::optional<Error>& failure) {
  try {
    device_.plugin->check(result, call, true);
  } catch (const Error& error) {
    failure = error;
    throw;
  }
}

void PluginEnd::require_whole() const {
  for (const auto& failure : {error_, start_error_})
    if (failure) throw Error(*failure);
}

std::unique_ptr<Registration> PluginEnd::register_memory(void* data, std::size_t bytes,
                                                         MemoryKind kind) {
  require_whole();
  return std::make_unique<PluginRegistration>(device_, comm_, data, bytes, kind);
}

Request PluginEnd::start(void* data, std::size_t bytes, Registration& memory) {
  require_whole();
  const NetPlugin& plugin = *device_.plugin;
  const char* const call = receives_ ? "irecv" : "isend";
  if (bytes > device_.properties.largest_message)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} of {} bytes, but device {} takes {} at most", plugin.title(), call,
                    bytes, device_.properties.name, device_.properties.largest_message));
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& each) { return !each.in_use; });
  if (entry == entries_.end()) return nullptr;
  auto& registered = static_cast<PluginRegistration&>(memory);
  void* request = nullptr;
  check(receives_ ? plugin->irecv(comm_, data, bytes, registered.get(), &request)
                  : plugin->isend(comm_, data, bytes, registered.get(), &request),
        call, start_error_);
  if (request == nullptr) return nullptr;
  *entry = {.in_use = true, .request = request, .data = data, .room = bytes, .memory = &registered};
  return &*entry;
}

bool PluginEnd::is_done(Entry& entry) {
  int done = 0, bytes = 0;
  check((*device_.plugin)->requests().test(entry.request, &done, &bytes), "test", error_);
  if (done == 0) return false;
  if (!entry.flushes) entry.bytes = static_cast<std::size_t>(bytes);
  return true;
}

bool PluginEnd::test(Request request, std::size_t* received) {
  if (error_) throw Error(*error_);
  auto& entry = *static_cast<Entry*>(request);
  if (!is_done(entry)) return false;
  if (receives_ && entry.bytes > entry.room) {
    error_.emplace(ErrorCode::bootstrap,
                   fmt::format("{}: a message of {} bytes came for a buffer of {} bytes",
                               device_.plugin->title(), entry.bytes, entry.room));
    throw Error(*error_);
  }
  const bool wants_flush =
      receives_ && !entry.flushes && entry.memory->on_device() && entry.bytes > 0;
  if (wants_flush) {
    void* memory = entry.memory->get();
    int bytes = static_cast<int>(entry.bytes);
    entry.flushes = true;
    check((*device_.plugin)
              ->requests()
              .iflush(comm_, 1, &entry.data, &bytes, &memory, &entry.request),
          "iflush", error_);
    // Null: this network needs no flush.
    if (entry.request != nullptr && !is_done(entry)) return false;
  }
  if (received != nullptr) *received = entry.bytes;
  entry = Entry();
  return true;
}

}  // namespace plait::transport
