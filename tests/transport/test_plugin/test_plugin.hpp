// A network plug-in for tests: messages over TCP on the loopback device, with faults on demand. It
// is strict where vendors' plug-ins may be: it refuses a request too many, and keeps the state of a
// connect in the handle.
#pragma once
#include <cstddef>
#include <cstdint>

#include "transport/plugin/net_interface.hpp"

namespace plait::test_plugin {

using namespace transport::net_interface;

Result devices(int* number);
Result listen(int device, void* handle, void** comm);
Result connect(int device, void* handle, void** comm);
Result accept(void* listener, void** comm, void** on_device);
Result send(void* comm, void* data, std::size_t bytes, void* memory, void** request);
Result receive(void* comm, int n, void* data, std::size_t bytes, void* memory, void** request);
Result start(Logger logger);
Result fill(int device, Properties8& properties);
const MemoryCalls& memory_calls();
const RequestCalls& request_calls();
/// Contexts that `init` has made and `finalize` has not ended.
void count_context(int change);

template <int version>
Result get_properties(int device, void* into) {
  Properties8 common{};
  if (const Result result = fill(device, common); result != success) return result;
  if constexpr (version == 8) {
    *static_cast<Properties8*>(into) = common;
  } else {
    auto& properties = *static_cast<PropertiesWithSizes<(version >= 12 ? 8 : 4)>*>(into);
    properties.name = common.name;
    properties.pci_path = common.pci_path;
    properties.pointer_support = common.pointer_support;
    properties.speed = common.speed;
    properties.latency = common.latency;
    properties.most_comms = common.most_comms;
    properties.most_receives = common.most_receives;
    properties.largest_message = std::size_t{1} << 40;
  }
  return success;
}

template <int version>
struct Calls {
  static Result listen_in(void* context, int device, void* handle, void** comm) {
    return context == nullptr ? internal_error : listen(device, handle, comm);
  }
  static Result connect_in(void* context, int device, void* handle, void** comm, void**) {
    return context == nullptr ? internal_error : connect(device, handle, comm);
  }
  static Result connect_with(int device, Config* config, void* handle, void** comm, void**) {
    return config->traffic_class != -1 ? internal_error : connect(device, handle, comm);
  }
  static Result connect_plainly(int device, void* handle, void** comm, void**) {
    return connect(device, handle, comm);
  }
  static Result init_context(void** context, std::uint64_t, Config* config, Logger logger,
                             Profiler) {
    if (config->traffic_class != -1) return internal_error;
    if (const Result result = start(logger); result != success) return result;
    *context = new int(version);
    count_context(1);
    return success;
  }
  static Result finalize(void* context) {
    delete static_cast<int*>(context);
    count_context(-1);
    return success;
  }
  static Result init_with_profiler(Logger logger, Profiler) { return start(logger); }

  static Result isend_with_event(void* comm, void* data, std::size_t bytes, int, void* memory,
                                 void*, void** request) {
    return send(comm, data, bytes, memory, request);
  }
  static Result irecv_with_events(void* comm, int n, void** data, std::size_t* bytes, int*,
                                  void** memory, void**, void** request) {
    return receive(comm, n, *data, *bytes, *memory, request);
  }
  template <class Size>
  static Result isend(void* comm, void* data, Size bytes, int, void* memory, void** request) {
    return send(comm, data, static_cast<std::size_t>(bytes), memory, request);
  }
  template <class Size>
  static Result irecv(void* comm, int n, void** data, Size* bytes, int*, void** memory,
                      void** request) {
    return receive(comm, n, *data, static_cast<std::size_t>(*bytes), *memory, request);
  }
};

/// Calls that Plait does not make stay null.
template <int version>
Table<version> table() {
  using Own = Calls<version>;
  Table<version> table{};
  table.name = "PlaitTest";
  table.probe = {devices, get_properties<version>};
  table.accept = accept;
  table.memory = memory_calls();
  table.requests = request_calls();
  if constexpr (version >= 11) {
    table.init = Own::init_context, table.finalize = Own::finalize;
    table.listen = Own::listen_in, table.connect = Own::connect_in;
  } else {
    table.listen = listen;
    if constexpr (version == 10) {
      table.init = Own::init_with_profiler, table.connect = Own::connect_with;
    } else {
      table.init = start, table.connect = Own::connect_plainly;
    }
  }
  if constexpr (version >= 10) {
    table.isend = Own::isend_with_event, table.irecv = Own::irecv_with_events;
  } else if constexpr (version == 9) {
    table.isend = Own::template isend<std::size_t>, table.irecv = Own::template irecv<std::size_t>;
  } else {
    table.isend = Own::template isend<int>, table.irecv = Own::template irecv<int>;
  }
  return table;
}

}  // namespace plait::test_plugin
