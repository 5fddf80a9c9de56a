#include "transport/plugin/plugin_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/standard_fds.hpp"
#include "plait/error.hpp"
#include "transport/plugin/plugin_flows.hpp"

namespace plait::transport {
namespace {

/// Some plug-ins keep the state of a connect in the handle, so it must stay where it is and be
/// aligned. There is more room than `handle_bytes`, because a later version may take more.
struct Handle {
  alignas(std::max_align_t) std::array<std::byte, 512> bytes{};
};
static_assert(sizeof(Address::bytes) == net_interface::handle_bytes);

class PluginListener final : public Listener {
 public:
  explicit PluginListener(const PluginDevice& device) : device_(device) {
    const NetPlugin& plugin = *device.plugin;
    const StandardFdsTaken taken;
    plugin.check(plugin->listen(plugin.context(), device.number, handle_.bytes.data(), &comm_),
                 "listen");
    const auto end = handle_.bytes.begin() + net_interface::handle_bytes;
    if (std::any_of(end, handle_.bytes.end(), [](std::byte each) { return each != std::byte{}; }))
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: listen: its handles have more than {} bytes", plugin.title(),
                              net_interface::handle_bytes));
  }
  ~PluginListener() override {
    if (origin_.is_here()) (*device_.plugin)->requests().close_listen(comm_);
  }
  PluginListener(const PluginListener&) = delete;
  PluginListener& operator=(const PluginListener&) = delete;

  Address address() const override {
    Address address;
    std::copy_n(handle_.bytes.begin(), address.bytes.size(), address.bytes.begin());
    return address;
  }
  std::unique_ptr<ReceiveFlow> accept() override {
    void* comm = nullptr;
    const StandardFdsTaken taken;
    device_.plugin->check((*device_.plugin)->accept(comm_, &comm), "accept", true);
    if (comm == nullptr) return nullptr;
    return std::make_unique<PluginReceiveFlow>(device_, comm);
  }

 private:
  PluginDevice device_;
  Handle handle_;
  void* comm_ = nullptr;
  Origin origin_;
};

class PluginTransport final : public Transport {
 public:
  PluginTransport(const std::string& path_or_name, int device, ExportDmaBuf export_dma_buf) {
    auto plugin = std::make_shared<NetPlugin>(path_or_name);
    int devices = 0;
    plugin->check((*plugin)->probe().devices(&devices), "devices");
    if (device < 0 || device >= devices)
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: device {} of {}, counted from 0",
                                                           plugin->title(), device, devices));
    device_.number = device;
    device_.export_dma_buf = std::move(export_dma_buf);
    plugin->check((*plugin)->properties(device, device_.properties), "getProperties");
    const NetDevice& found = device_.properties;
    properties_ = {.name = fmt::format("{} over {}", plugin->title(), found.name),
                   .device_memory = (found.pointer_support & (net_interface::device_pointers |
                                                              net_interface::dmabuf_pointers)) != 0,
                   .largest_message = found.largest_message,
                   .bandwidth = found.speed / 8,
                   .latency = found.latency};
    device_.plugin = std::move(plugin);
  }

  const Properties& properties() const override { return properties_; }
  std::unique_ptr<Listener> listen() override { return std::make_unique<PluginListener>(device_); }

  std::unique_ptr<SendFlow> connect(const Address& address, Ways) override {
    const NetPlugin& plugin = *device_.plugin;
    const auto [entry, is_new] = calls_.try_emplace(address.bytes);
    Handle& handle = entry->second;
    if (is_new) std::copy(address.bytes.begin(), address.bytes.end(), handle.bytes.begin());
    void* comm = nullptr;
    const StandardFdsTaken taken;
    const auto result =
        plugin->connect(plugin.context(), device_.number, handle.bytes.data(), &comm);
    if (result == net_interface::success && comm == nullptr) return nullptr;
    calls_.erase(entry);
    plugin.check(result, "connect", true);
    return std::make_unique<PluginSendFlow>(device_, comm);
  }

  /// Plug-ins can't tell when something has arrived.
  void wait(std::chrono::microseconds timeout) override {
    std::unique_lock lock(mutex_);
    bell_.wait_for(lock, std::min(timeout, longest_blind_wait), [&] { return woken_; });
    woken_ = false;
  }
  void wake() noexcept override {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
    bell_.notify_all();
  }

 private:
  PluginDevice device_;
  Properties properties_;
  std::map<std::array<std::byte, net_interface::handle_bytes>, Handle> calls_;
  std::mutex mutex_;
  std::condition_variable bell_;
  bool woken_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_plugin_transport(const std::string& path_or_name, int device,
                                                 ExportDmaBuf export_dma_buf) {
  return std::make_unique<PluginTransport>(path_or_name, device, std::move(export_dma_buf));
}

std::vector<NetDevice> plugin_devices(const std::string& path_or_name) {
  const NetPlugin plugin(path_or_name);
  int number = 0;
  plugin.check(plugin->probe().devices(&number), "devices");
  std::vector<NetDevice> devices(static_cast<std::size_t>(std::max(number, 0)));
  for (int i = 0; i < number; ++i)
    plugin.check(plugin->properties(i, devices[static_cast<std::size_t>(i)]), "getProperties");
  return devices;
}

}  // namespace plait::transport
