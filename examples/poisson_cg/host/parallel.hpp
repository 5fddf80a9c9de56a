// Loops over a slab on the host, on the calling thread. `cuda/` and `kokkos/` have the same names.
#pragma once
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "plait/communicator.hpp"
#include "problem.hpp"

/// Begins a lambda that a `Device` can run.
#define POISSON_LAMBDA [=]

namespace poisson {

inline constexpr plait::BackendKind target = plait::BackendKind::host;

/// What the program needs around everything else.
class Environment {
 public:
  Environment(int&, char**) {}
};

inline plait::CommunicatorOptions communicator_options() {
  plait::CommunicatorOptions options;
  options.backend = target;
  return options;
}

/// The queue on which everything is ordered, and loops over the points of one slab. On the host all
/// is done when a call returns.
class Device {
 public:
  explicit Device(const Slab& slab) : slab_(slab) {}

  /// f(i) for the index i of every point.
  template <class F>
  void for_each_point(const F& f) {
    for (int z = 1; z <= slab_.layers; ++z)
      for (int y = 1; y <= slab_.n; ++y) {
        const std::size_t begin = slab_.index(1, y, z),
                          end = begin + static_cast<std::size_t>(slab_.n);
        for (std::size_t i = begin; i < end; ++i) f(i);
      }
  }
  /// The same, and the sum of what f returns in `*result`, in an order that is always the same.
  template <class F>
  void sum_points(double* result, const F& f) {
    double sum = 0;
    for_each_point([&](std::size_t i) { sum += f(i); });
    *result = sum;
  }
  /// f() once, on the device.
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

/// Device memory, zeroed. A view is what lambdas take with them.
class Array {
 public:
  Array(Device&, std::size_t count) : values_(count) {}
  double* view() { return values_.data(); }
  double* data() { return values_.data(); }

 private:
  std::vector<double> values_;
};

/// Host memory from which a device copies fast.
using StagingArray = Array;

/// Calls that are made again and again, recorded in a graph where the device has graphs and the
/// calls allow it.
class Batch {
 public:
  Batch(Device&, bool /*capturable*/, std::function<void()> calls) : calls_(std::move(calls)) {}
  void run() { calls_(); }

 private:
  std::function<void()> calls_;
};

}  // namespace poisson
