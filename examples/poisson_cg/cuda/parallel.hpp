// Loops over a slab on a CUDA device. `host/` and `kokkos/` define the same names.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plait/communicator.hpp"
#include "problem.hpp"

/// Starts a lambda that a `Device` can run.
#define POISSON_LAMBDA [=] __device__

namespace poisson {

inline constexpr plait::BackendKind target = plait::BackendKind::cuda;

/// Alive while the program uses the device.
class Environment {
 public:
  Environment(int&, char**) {}
};

inline plait::CommunicatorOptions communicator_options() {
  plait::CommunicatorOptions options;
  options.backend = target;
  return options;
}

inline void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

/// Memory of the device, or pinned memory of the host; zeroed. Lambdas capture a view of it.
template <cudaError_t (*allocate)(void**, std::size_t), cudaError_t (*release)(void*)>
class ArrayFrom {
 public:
  explicit ArrayFrom(std::size_t count) {
    if (count == 0) return;
    check(allocate(&data_, count * sizeof(double)), "allocation");
    check(cudaMemset(data_, 0, count * sizeof(double)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~ArrayFrom() { release(data_); }
  ArrayFrom(const ArrayFrom&) = delete;
  ArrayFrom& operator=(const ArrayFrom&) = delete;

  double* view() { return data(); }
  double* data() { return static_cast<double*>(data_); }

 private:
  void* data_ = nullptr;
};

namespace kernels {

// A block has a tile of a layer, and walks through `depth` layers, so that there are few partial
// sums.
inline constexpr unsigned tile_x = 32, tile_y = 8, depth = 16, block = tile_x * tile_y,
                          final_block = 1024;

/// The sum over a block's threads, in thread 0, always in the same order.
template <unsigned threads>
__device__ double block_sum(double mine) {
  __shared__ double sums[threads];
  const unsigned thread = threadIdx.x + threadIdx.y * blockDim.x;
  sums[thread] = mine;
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  return sums[0];
}

template <class Visit>
__device__ void visit_points(int n, int layers, const Visit& visit) {
  const int x = static_cast<int>(blockIdx.x * tile_x + threadIdx.x) + 1,
            y = static_cast<int>(blockIdx.y * tile_y + threadIdx.y) + 1;
  if (x > n || y > n) return;
  const int begin = static_cast<int>(blockIdx.z * depth) + 1,
            end = min(begin + static_cast<int>(depth), layers + 1);
  const std::size_t row = n + 2, layer = row * row;
  for (int z = begin; z < end; ++z) visit(z * layer + y * row + x);
}

template <class F>
__global__ void for_each_point(int n, int layers, F f) {
  visit_points(n, layers, f);
}

template <class F>
__global__ void partial_sums(int n, int layers, F f, double* partial) {
  double mine = 0;
  visit_points(n, layers, [&](std::size_t i) { mine += f(i); });
  const double sum = block_sum<block>(mine);
  if (threadIdx.x == 0 && threadIdx.y == 0)
    partial[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = sum;
}

/// Launched with one block.
static __global__ void sum_of_partials(const double* partial, std::size_t count, double* result) {
  double mine = 0;
  for (std::size_t i = threadIdx.x; i < count; i += final_block) mine += partial[i];
  const double sum = block_sum<final_block>(mine);
  if (threadIdx.x == 0) *result = sum;
}

template <class F>
__global__ void once(F f) {
  f();
}

inline cudaError_t allocate(void** data, std::size_t bytes) { return cudaMalloc(data, bytes); }
inline cudaError_t allocate_pinned(void** data, std::size_t bytes) {
  return cudaMallocHost(data, bytes);
}

}  // namespace kernels

/// The stream that orders all work, and loops over the points of one slab. Only `synchronize`
/// waits.
class Device {
 public:
  explicit Device(const Slab& slab)
      : n_(slab.n),
        layers_(slab.layers),
        grid_(blocks(slab.n, kernels::tile_x), blocks(slab.n, kernels::tile_y),
              blocks(slab.layers, kernels::depth)),
        partial_(std::size_t{grid_.x} * grid_.y * grid_.z) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Device() { cudaStreamDestroy(stream_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Calls f(i) for the index i of every point.
  template <class F>
  void for_each_point(const F& f) {
    kernels::for_each_point<<<grid_, tile(), 0, stream_>>>(n_, layers_, f);
    check(cudaGetLastError(), "for_each_point");
  }
  /// The same, and writes the sum of f's results to `*result`, always in the same order.
  template <class F>
  void sum_points(double* result, const F& f) {
    kernels::partial_sums<<<grid_, tile(), 0, stream_>>>(n_, layers_, f, partial_.data());
    kernels::sum_of_partials<<<1, kernels::final_block, 0, stream_>>>(
        partial_.data(), std::size_t{grid_.x} * grid_.y * grid_.z, result);
    check(cudaGetLastError(), "sum_points");
  }
  /// Calls f() once, on the device.
  template <class F>
  void once(const F& f) {
    kernels::once<<<1, 1, 0, stream_>>>(f);
    check(cudaGetLastError(), "once");
  }
  void to_host(double* host, const double* device, std::size_t count) { copy(host, device, count); }
  void to_device(double* device, const double* host, std::size_t count) {
    copy(device, host, count);
  }
  void synchronize() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  cudaStream_t native() const { return stream_; }
  plait::StreamRef stream() const { return stream_; }

 private:
  static unsigned blocks(int points, unsigned each) {
    return (static_cast<unsigned>(points) + each - 1) / each;
  }
  static dim3 tile() { return {kernels::tile_x, kernels::tile_y}; }
  void copy(void* to, const void* from, std::size_t count) {
    check(cudaMemcpyAsync(to, from, count * sizeof(double), cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync");
  }

  int n_, layers_;
  dim3 grid_;
  ArrayFrom<kernels::allocate, cudaFree> partial_;
  cudaStream_t stream_ = nullptr;
};

class Array : public ArrayFrom<kernels::allocate, cudaFree> {
 public:
  Array(Device&, std::size_t count) : ArrayFrom(count) {}
};

/// Host memory that a device copies from fast.
class StagingArray : public ArrayFrom<kernels::allocate_pinned, cudaFreeHost> {
 public:
  StagingArray(Device&, std::size_t count) : ArrayFrom(count) {}
};

/// Calls that are repeated: recorded in a graph if the calls allow it.
class Batch {
 public:
  Batch(Device& device, bool capturable, std::function<void()> calls)
      : device_(device), calls_(std::move(calls)) {
    if (!capturable) return;
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(device.native(), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    calls_();
    check(cudaStreamEndCapture(device.native(), &graph), "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiate(&replay_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "cudaGraphInstantiate");
  }
  ~Batch() {
    if (replay_ != nullptr) cudaGraphExecDestroy(replay_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void run() {
    if (replay_ != nullptr) check(cudaGraphLaunch(replay_, device_.native()), "cudaGraphLaunch");
    else calls_();
  }

 private:
  Device& device_;
  std::function<void()> calls_;
  cudaGraphExec_t replay_ = nullptr;
};

}  // namespace poisson
