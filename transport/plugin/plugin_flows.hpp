// Flows through a network plug-in.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include "core/process.hpp"
#include "transport/plugin/net_library.hpp"
#include "transport/plugin/plugin_transport.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// What the flows of one transport share.
struct PluginDevice {
  std::shared_ptr<const NetPlugin> plugin;
  int number = 0;
  NetDevice properties;
  ExportDmaBuf export_dma_buf;
};

class PluginRegistration final : public Registration {
 public:
  /// Throws Error(unsupported) if the device can't use this kind of memory.
  PluginRegistration(const PluginDevice& device, void* comm, void* data, std::size_t bytes,
                     MemoryKind kind);
  ~PluginRegistration() override;
  PluginRegistration(const PluginRegistration&) = delete;
  PluginRegistration& operator=(const PluginRegistration&) = delete;

  void* get() const { return memory_; }
  bool on_device() const { return on_device_; }

 private:
  bool register_dma_buf(const PluginDevice& device, void* data, std::size_t bytes);

  std::shared_ptr<const NetPlugin> plugin_;
  void* comm_;
  void* memory_ = nullptr;
  bool on_device_;
  Origin origin_;
};

/// The requests of one comm. A request here is the address of an entry, because a receive into a
/// GPU's memory takes two of the plug-in: the message, then a flush.
class PluginRequests {
 public:
  struct Entry {
    bool in_use = false;
    void* request = nullptr;
    bool flushes = false;
    void* data = nullptr;
    std::size_t room = 0, bytes = 0;
    const PluginRegistration* memory = nullptr;
  };
  explicit PluginRequests(std::shared_ptr<const NetPlugin> plugin) : plugin_(std::move(plugin)) {}

  /// An entry that is free, or null.
  Entry* free_entry();
  /// Throws what the flow throws from then on, but for `test`: what was started before may be done.
  void check_started(net_interface::Result result, const char* call) {
    check(result, call, start_error_);
  }
  void require_whole() const;
  /// `comm`: of a receiving flow, for the flush.
  bool test(Request request, void* comm, std::size_t* received);

 private:
  void check(net_interface::Result result, const char* call, std::optional<Error>& failure);
  bool is_done(Entry& entry);

  std::shared_ptr<const NetPlugin> plugin_;
  std::array<Entry, net_interface::most_requests> entries_;
  std::optional<Error> error_, start_error_;
};

class PluginSendFlow final : public SendFlow {
 public:
  PluginSendFlow(const PluginDevice& device, void* comm);
  ~PluginSendFlow() override;
  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes,
                                                MemoryKind kind) override;
  bool test(Request request, std::size_t* received) override;
  Request isend(const void* data, std::size_t bytes, Registration& memory) override;

 private:
  PluginDevice device_;
  void* comm_;
  PluginRequests requests_;
  Origin origin_;
};

class PluginReceiveFlow final : public ReceiveFlow {
 public:
  PluginReceiveFlow(const PluginDevice& device, void* comm);
  ~PluginReceiveFlow() override;
  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes,
                                                MemoryKind kind) override;
  bool test(Request request, std::size_t* received) override;
  Request irecv(void* data, std::size_t bytes, Registration& memory) override;

 private:
  PluginDevice device_;
  void* comm_;
  PluginRequests requests_;
  Origin origin_;
};

}  // namespace plait::transport
