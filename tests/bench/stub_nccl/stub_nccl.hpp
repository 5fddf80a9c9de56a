// State that a test shares with its stand-in for libnccl.
#pragma once
#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

struct CUstream_st;

namespace plait::bench {

struct StubNccl {
  int version = 22809;
  std::string fails;               // the function that fails
  bool makes_windows = true;       // false: registering succeeds without one, as NCCL may
  MPI_Comm ranks = MPI_COMM_NULL;  // carries all calls
  /// Runs a function in the order of a stream.
  std::function<void(CUstream_st*, std::function<void()>)> enqueue;

  std::vector<std::string> calls;  // "FUNCTION COUNT TYPE [OPERATION] [ROOT OR PEER]"
  int communicators = 0, allocations = 0, windows = 0;  // alive
};

}  // namespace plait::bench

extern "C" plait::bench::StubNccl* stub_nccl();
