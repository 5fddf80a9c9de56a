// Loops over a slab on the host, on the calling thread. `cuda/` and `kokkos/` define the same
// names.
#pragma once
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "plait/communicator.hpp"
#include "problem.hpp"

/// Starts a lambda that a `Device` can run.
#define POISSON_LAMBDA [=]

namespace poisson {

inline constexpr plait::BackendKind target = plait::BackendKind::host;

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

/// The queue that orders all work, and loops over the points of one slab. On the host the work is
/// done when a call returns.
class Device {
 public:
  explicit Device(const Slab& slab) : slab_(slab) {}

  /// Calls f(i) for the index i of every point.
  template <class F>
  void for_each_point(const F& f) {
    for (int z = 1; z <= slab_.layers; ++z)
      for (int y = 1; y <= slab_.n; ++y) {
        const std::size_t begin = slab_.index(1, y, z),
                          end = begin + static_cast<std::size_t>(slab_.n);
        for (std::size_t i = begin; i < end; ++i) f(i);
      }
  }
  /// The same, and writes the sum of f's results to `*result`, always in the same order.
  template <class F>
  void sum_points(double* result, const F& f) {
    double sum = 0;
    for_each_point([&](std::size_t i) { sum += f(i); });
    *result = sum;
  }
  /// Calls f() once, on the device.
  template <class F>
  void once(const F& f) {
    f();
  }
  void to_host(double* host, const double* device, std::size_t count) {
    std::memcpy(host, device, count * sizeof(double));
  }
  void to_device(double* device, const double* host, std::size_t count) {
    std::memcpy(device, host, count * sizeof(double));
  }
  void synchronize() {}
  plait::StreamRef stream() const { return {}; }

 private:
  Slab slab_;
};

/// Device memory, zeroed. Lambdas capture a view of it.
class Array {
 public:
  Array(Device&, std::size_t count) : values_(count) {}
  double* view() { return values_.data(); }
  double* data() { return values_.data(); }

 private:
  std::vector<double> values_;
};

/// Host memory that a device copies from fast.
using StagingArray = Array;

/// Calls that are repeated: recorded in a graph if the device has graphs and the calls allow it.
class Batch {
 public:
  Batch(Device&, bool /*capturable*/, std::function<void()> calls) : calls_(std::move(calls)) {}
  void run() { calls_(); }

 private:
  std::function<void()> calls_;
};

}  // namespace poisson
