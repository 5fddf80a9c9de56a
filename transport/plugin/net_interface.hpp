// The binary interface of the network plug-ins that vendors write for NCCL, versions 8 to 12. A
// plug-in is a shared object libnccl-net*.so with one table of functions per version that it
// serves: ncclNetPlugin_v8, ncclNetPlugin_v9, ... The names here are Plait's own. Only the order
// and the types of the members are given from outside.
//
// | version | what changes                                                                     |
// | ------- | -------------------------------------------------------------------------------- |
// | 8       | sizes of messages are int                                                        |
// | 9       | sizes are size_t, properties have force_flush, virtual devices and largest sizes |
// | 10      | connect takes a configuration, init and messages take handles for a profiler     |
// | 11      | init makes a context for listen and connect, finalize ends it, and the           |
// |         | configuration goes to init                                                       |
// | 12      | as 11, with more members in the properties                                       |
#pragma once
#include <cstddef>
#include <cstdint>

namespace plait::transport::net_interface {

inline constexpr int oldest = 8, newest = 12;
inline constexpr std::size_t handle_bytes = 128;  // a listener's handle
inline constexpr int most_requests = 32;          // at a time, for each comm

enum Result : int {
  success = 0,
  cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// Bits of `pointer_support`, and the type of a registration.
enum Pointers : int { host_pointers = 1, device_pointers = 2, dmabuf_pointers = 4 };

enum LogLevel : int { log_none, log_version, log_warn, log_info, log_abort, log_trace };
using Logger = void (*)(LogLevel level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);
using Profiler = Result (*)(void** event, int type, void* parent, std::int64_t plugin, void* data);

struct Config {
  int traffic_class = -1;  // -1: the plug-in's choice
};

template <int most>
struct VirtualDevice {
  int count;
  int devices[most];
};

struct Properties8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed;  // Mbit/s
  int port;
  float latency;  // us
  int most_comms;
  int most_receives;  // buffers of one irecv
  int device_type, device_version;
};
template <int most_devices>
struct PropertiesWithSizes {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int device_type, device_version;
  VirtualDevice<most_devices> parts;
  std::size_t largest_message, largest_collective;
};
using Properties9 = PropertiesWithSizes<4>;   // 10 and 11, too; 11 adds a member
using Properties12 = PropertiesWithSizes<8>;  // adds members

/// A plug-in may write more members than the versions above have, so there is room behind them.
template <class T>
struct WithRoom {
  T properties{};
  std::byte room[256]{};
};

// The members that all versions share, in their order.
struct MemoryCalls {
  Result (*reg_mr)(void* comm, void* data, std::size_t bytes, int type, void** memory);
  Result (*reg_mr_dmabuf)(void* comm, void* data, std::size_t bytes, int type, std::uint64_t offset,
                          int descriptor, void** memory);
  Result (*dereg_mr)(void* comm, void* memory);
};
struct RequestCalls {
  Result (*iflush)(void* comm, int n, void** data, int* bytes, void** memory, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_send)(void* comm);
  Result (*close_recv)(void* comm);
  Result (*close_listen)(void* comm);
  Result (*get_device_mr)(void* comm, void* memory, void** device_memory);
  Result (*irecv_consumed)(void* comm, int n, void* request);
};
struct ProbeCalls {
  Result (*devices)(int* number);
  Result (*get_properties)(int device, void* properties);
};

/// The table of one version. `devices` of connect and accept: for offload to a GPU, null without.
template <int version>
struct Table;

/// Versions 8 and 9, which differ in the type of sizes.
template <class Size>
struct TableBySize {
  const char* name;
  Result (*init)(Logger logger);
  ProbeCalls probe;
  Result (*listen)(int device, void* handle, void** comm);
  Result (*connect)(int device, void* handle, void** comm, void** on_device);
  Result (*accept)(void* listener, void** comm, void** on_device);
  MemoryCalls memory;
  Result (*isend)(void* comm, void* data, Size bytes, int tag, void* memory, void** request);
  Result (*irecv)(void* comm, int n, void** data, Size* bytes, int* tags, void** memory,
                  void** request);
  RequestCalls requests;
};

template <>
struct Table<8> : TableBySize<int> {};

template <>
struct Table<9> : TableBySize<std::size_t> {
  Result (*make_virtual_device)(int* device, void* parts);
};

template <>
struct Table<10> {
  const char* name;
  Result (*init)(Logger logger, Profiler profiler);
  ProbeCalls probe;
  Result (*listen)(int device, void* handle, void** comm);
  Result (*connect)(int device, Config* config, void* handle, void** comm, void** on_device);
  Result (*accept)(void* listener, void** comm, void** on_device);
  MemoryCalls memory;
  Result (*isend)(void* comm, void* data, std::size_t bytes, int tag, void* memory, void* event,
                  void** request);
  Result (*irecv)(void* comm, int n, void** data, std::size_t* bytes, int* tags, void** memory,
                  void** events, void** request);
  RequestCalls requests;
  Result (*make_virtual_device)(int* device, void* parts);
};

template <>
struct Table<11> {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, Config* config, Logger logger,
                 Profiler profiler);
  ProbeCalls probe;
  Result (*listen)(void* context, int device, void* handle, void** comm);
  Result (*connect)(void* context, int device, void* handle, void** comm, void** on_device);
  Result (*accept)(void* listener, void** comm, void** on_device);
  MemoryCalls memory;
  Result (*isend)(void* comm, void* data, std::size_t bytes, int tag, void* memory, void* event,
                  void** request);
  Result (*irecv)(void* comm, int n, void** data, std::size_t* bytes, int* tags, void** memory,
                  void** events, void** request);
  RequestCalls requests;
  Result (*make_virtual_device)(int* device, void* parts);
  Result (*finalize)(void* context);
  Result (*set_attributes)(void* context, void* attributes);
};

template <>
struct Table<12> : Table<11> {};

}  // namespace plait::transport::net_interface
