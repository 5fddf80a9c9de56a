// The binary interface between NCCL's functions and their callers: the numbers and the layouts of
// NCCL 2.32, as far as Plait reads or writes them. tests/interop/nccl/abi_test.cpp compares them
// with nccl.h.
//
// Structures begin with their size in the caller's version. Later versions only add members at the
// end.
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>

struct CUstream_st;  // cudaStream_t points to it
struct CUevent_st;   // cudaEvent_t

namespace plait::nccl {

/// What ncclGetVersion says, 2.28.9. Programs ask for later ones only to use what Plait refuses.
inline constexpr int version = 22809;

inline constexpr unsigned magic_of_config = 0xcafebeef, magic_of_simulation = 0x74685283;
inline constexpr int unset = INT_MIN;  // of a number in a configuration
inline constexpr int no_colour = -1;
inline constexpr int shrink_aborts = 1;  // flag of ncclCommShrink
/// Flag of ncclCommWindowRegister: collectives pass the same offset on all ranks.
inline constexpr int window_for_collectives = 1;

enum class Result : int {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress,
  timeout,  // since 2.30
};
inline constexpr int result_count = 9;

/// Data types and operations are passed as numbers, because callers may pass any.
using TypeNumber = int;
enum : TypeNumber {
  int8 = 0,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  float32,
  float64,
  bfloat16,
  float8e4m3,
  float8e5m2,
  type_count
};
using OpNumber = int;
enum : OpNumber { op_sum = 0, op_prod, op_max, op_min, op_avg, op_count, op_last = INT_MAX };

using ResidenceNumber = int;
enum : ResidenceNumber { scalar_on_device = 0, scalar_on_host = 1 };

struct CommObject;
using CommHandle = CommObject*;  // a number in the guise of a pointer
struct WindowObject;
using WindowHandle = WindowObject*;
using StreamHandle = CUstream_st*;

struct IdBytes {
  char bytes[128];
};

/// ncclConfig_t.
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
  int cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share, traffic_class;
  const char* comm_name;
  int collnet_enable, cta_policy, shrink_share, nvls_ctas, channels_per_net_peer;
  int nvlink_centric_scheduling;
  // Since 2.29.
  int graph_usage_mode, rma_contexts, max_p2p_peers, graph_stream_ordering, launch_order_implicit;
  int rma_signals, rma_eager_init, host_cft_mode, nvls_host_mode;
};

/// An option of one vendor in a ConfigList.
struct ConfigOption {
  ConfigOption* next;
  struct Key {
    int vendor, option;
  } key;
  union Value {
    int number;
    const char* text;
    void* raw;
  } value;
};
/// Plait's options: docs/nccl.md.
inline constexpr int vendor = 0x504c54;  // "PLT"
inline constexpr int option_algorithm = 1, option_blocks = 2, option_threads = 3;

/// ncclCollConfig_t, of one collective. Since 2.31.
struct CallConfig {
  std::size_t size;
  unsigned magic, version;
  ConfigOption* options;
  int min_ctas, max_ctas, nvls_ctas, cga_cluster_size;
  const char* algorithms;  // NCCL's names of its algorithms
  int force_algorithms, cta_policy;
  std::uint64_t profiler_tag;
  CUevent_st* launch_completion;  // since 2.32
};

/// ncclSimInfo_t.
struct Simulation {
  std::size_t size;
  unsigned magic, version;
  float estimated_time;  // microseconds
};

/// The beginning of ncclCommProperties_t. Since 2.29.
struct Properties {
  std::size_t size;
  unsigned magic, version;
  int rank, ranks, cuda_device, nvml_device;
};

/// ncclWaitSignalDesc_t. Since 2.29.
struct AwaitedSignals {
  int count, peer, index, context;
};

/// ncclTeam_t.
struct Team {
  int ranks, rank, stride;
};

}  // namespace plait::nccl
