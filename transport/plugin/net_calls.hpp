// One shape for all versions of the plug-ins' interface.
#pragma once
#include <algorithm>
#include <type_traits>

#include "transport/plugin/net_library.hpp"

namespace plait::transport {

/// What the plug-in says, for the log. Called from C, from any thread of the plug-in.
void log_of_plugin(net_interface::LogLevel level, unsigned long subsystems, const char* file,
                   int line, const char* format, ...) noexcept;

template <int of_version>
class NetCallsOf final : public NetCalls {
  using Table = net_interface::Table<of_version>;

 public:
  explicit NetCallsOf(const Table& table) : table_(table) {}

  int version() const override { return of_version; }
  const char* name() const override { return table_.name; }

  Result init(void** context, std::uint64_t number) const override {
    if constexpr (of_version >= 11) {
      net_interface::Config config;
      return table_.init(context, number, &config, log_of_plugin, ignore_event);
    } else if constexpr (of_version == 10) {
      return table_.init(log_of_plugin, ignore_event);
    } else {
      return table_.init(log_of_plugin);
    }
  }
  Result finalize(void* context) const override {
    if constexpr (of_version >= 11) return table_.finalize(context);
    return Result::success;
  }
  Result properties(int device, NetDevice& found) const override {
    if constexpr (of_version >= 12) return read<net_interface::Properties12>(device, found);
    else if constexpr (of_version >= 9) return read<net_interface::Properties9>(device, found);
    else return read<net_interface::Properties8>(device, found);
  }
  Result listen([[maybe_unused]] void* context, int device, void* handle,
                void** comm) const override {
    if constexpr (of_version >= 11) return table_.listen(context, device, handle, comm);
    else return table_.listen(device, handle, comm);
  }
  Result connect([[maybe_unused]] void* context, int device, void* handle,
                 void** comm) const override {
    void* on_device = nullptr;  // no offload
    if constexpr (of_version >= 11) {
      return table_.connect(context, device, handle, comm, &on_device);
    } else if constexpr (of_version == 10) {
      net_interface::Config config;
      return table_.connect(device, &config, handle, comm, &on_device);
    } else {
      return table_.connect(device, handle, comm, &on_device);
    }
  }
  Result accept(void* listener, void** comm) const override {
    void* on_device = nullptr;
    return table_.accept(listener, comm, &on_device);
  }
  Result isend(void* comm, void* data, std::size_t bytes, void* memory,
               void** request) const override {
    const auto size = static_cast<Size>(bytes);
    if constexpr (of_version >= 10)
      return table_.isend(comm, data, size, 0, memory, nullptr, request);
    else return table_.isend(comm, data, size, 0, memory, request);
  }
  Result irecv(void* comm, void* data, std::size_t bytes, void* memory,
               void** request) const override {
    auto size = static_cast<Size>(bytes);
    int tag = 0;
    [[maybe_unused]] void* event = nullptr;
    if constexpr (of_version >= 10)
      return table_.irecv(comm, 1, &data, &size, &tag, &memory, &event, request);
    else return table_.irecv(comm, 1, &data, &size, &tag, &memory, request);
  }
  const net_interface::ProbeCalls& probe() const override { return table_.probe; }
  const net_interface::MemoryCalls& memory() const override { return table_.memory; }
  const net_interface::RequestCalls& requests() const override { return table_.requests; }

 private:
  using Size = std::conditional_t<of_version >= 9, std::size_t, int>;

  static Result ignore_event(void**, int, void*, std::int64_t, void*) { return Result::success; }

  template <class Properties>
  Result read(int device, NetDevice& found) const {
    // `test` reports sizes as int in all versions.
    constexpr std::size_t largest = 1 << 30;
    net_interface::WithRoom<Properties> properties;
    const Result result = table_.probe.get_properties(device, &properties);
    const Properties& known = properties.properties;
    found.name = known.name != nullptr ? known.name : "?";
    found.pci_path = known.pci_path != nullptr ? known.pci_path : "";
    found.pointer_support = known.pointer_support;
    found.speed = std::max(known.speed, 0);
    found.latency = std::max(known.latency, 0.0F);
    found.largest_message = largest;
    if constexpr (requires { known.largest_message; }) {
      if (known.largest_message > 0)
        found.largest_message = std::min(largest, known.largest_message);
    }
    return result;
  }

  const Table& table_;
};

}  // namespace plait::transport
