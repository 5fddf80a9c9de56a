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

/// The common work of both ends of a flow. A request here is the address of an entry, because a
/// receive into a GPU's memory takes two of the plug-in: the message, then a flush.
class PluginEnd {
 public:
  PluginEnd(const PluginDevice& device, void* comm, bool receives)
      : device_(device), comm_(comm), receives_(receives) {}
  ~PluginEnd();
  PluginEnd(const PluginEnd&) = delete;
  PluginEnd& operator=(const PluginEnd&) = delete;

  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind);
  /// Sends or receives. Null: no more messages now.
  Request start(void* data, std::size_t bytes, Registration& memory);
  bool test(Request request, std::size_t* received);

 private:
  struct Entry {
    bool in_use = false;
    void* request = nullptr;
    bool flushes = false;
    void* data = nullptr;
    std::size_t room = 0, bytes = 0;
    const PluginRegistration* memory = nullptr;
  };
  /// Throws what the flow throws from then on; a failed start, what all but `test` throw: messages
  /// that were started before may be done.
  void check(net_interface::Result result, const char* call, std::optional<Error>& failure);
  void require_whole() const;
  bool is_done(Entry& entry);

  PluginDevice device_;
  void* comm_;
  bool receives_;
  std::array<Entry, net_interface::most_requests> entries_;
  std::optional<Error> error_, start_error_;
  Origin origin_;
};

class PluginSendFlow final : public SendFlow {
 public:
  PluginSendFlow(const PluginDevice& device, void* comm) : end_(device, comm, false) {}
  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes,
                                                MemoryKind kind) override {
    return end_.register_memory(data, bytes, kind);
  }
  bool test(Request request, std::size_t*) override { return end_.test(request, nullptr); }
  Request isend(const void* data, std::size_t bytes, Registration& memory) override {
    return end_.start(const_cast<void*>(data), bytes, memory);
  }

 private:
  PluginEnd end_;
};

class PluginReceiveFlow final : public ReceiveFlow {
 public:
  PluginReceiveFlow(const PluginDevice& device, void* comm) : end_(device, comm, true) {}
  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes,
                                                MemoryKind kind) override {
    return end_.register_memory(data, bytes, kind);
  }
  bool test(Request request, std::size_t* received) override {
    return end_.test(request, received);
  }
  Request irecv(void* data, std::size_t bytes, Registration& memory) override {
    return end_.start(data, bytes, memory);
  }

 private:
  PluginEnd end_;
};

}  // namespace plait::transport
