// Loops over a slab with Kokkos, on its default execution space. `host/` and `cuda/` define the
// same names.
#pragma once
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "plait/kokkos.hpp"
#include "problem.hpp"

#define POISSON_LAMBDA KOKKOS_LAMBDA

namespace poisson {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
/// One number, in memory that the view does not own.
using NumberView = Kokkos::View<double, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <class Space>
constexpr plait::BackendKind target_of() {
  if constexpr (requires(const Space& exec) { exec.cuda_stream(); })
    return plait::BackendKind::cuda;
  else if constexpr (requires(const Space& exec) { exec.hip_stream(); })
    return plait::BackendKind::hip;
  else return plait::BackendKind::host;
}
inline constexpr plait::BackendKind target = target_of<Exec>();

/// Initialises Kokkos, which removes its own options from the command line.
using Environment = Kokkos::ScopeGuard;

inline plait::CommunicatorOptions communicator_options() {
  return plait::kokkos::communicator_options(Exec());
}

/// The queue that orders all work, and loops over the points of one slab.
class Device {
  using Points =
      Kokkos::MDRangePolicy<Exec, Kokkos::Rank<3, Kokkos::Iterate::Left, Kokkos::Iterate::Left>>;

 public:
  explicit Device(const Slab& slab)
      : row_(slab.row()),
        layer_(slab.layer()),
        points_(exec_, {1, 1, 1}, {slab.n + 1, slab.n + 1, slab.layers + 1}) {}

  /// Calls f(i) for the index i of every point.
  template <class F>
  void for_each_point(const F& f) {
    const std::size_t row = row_, layer = layer_;
    Kokkos::parallel_for(
        "poisson::for_each_point", points_, KOKKOS_LAMBDA(int x, int y, int z) {
          f(static_cast<std::size_t>(z) * layer + static_cast<std::size_t>(y) * row +
            static_cast<std::size_t>(x));
        });
  }
  /// The same, and writes the sum of f's results to `*result`.
  template <class F>
  void sum_points(double* result, const F& f) {
    const std::size_t row = row_, layer = layer_;
    // The result is a view, because a reduction into a scalar would wait.
    Kokkos::parallel_reduce(
        "poisson::sum_points", points_,
        KOKKOS_LAMBDA(int x, int y, int z, double& sum) {
          sum += f(static_cast<std::size_t>(z) * layer + static_cast<std::size_t>(y) * row +
                   static_cast<std::size_t>(x));
        },
        NumberView(result));
  }
  /// Calls f() once, on the device.
  template <class F>
  void once(const F& f) {
    Kokkos::parallel_for(
        "poisson::once", Kokkos::RangePolicy<Exec>(exec_, 0, 1), KOKKOS_LAMBDA(int) { f(); });
  }
  void to_host(double* host, const double* device, std::size_t count) {
    Kokkos::deep_copy(exec_, Numbers<Kokkos::HostSpace>(host, count),
                      Numbers<Memory, const double>(device, count));
  }
  void to_device(double* device, const double* host, std::size_t count) {
    Kokkos::deep_copy(exec_, Numbers<Memory>(device, count),
                      Numbers<Kokkos::HostSpace, const double>(host, count));
  }
  void synchronize() { exec_.fence(); }
  plait::StreamRef stream() const { return plait::kokkos::stream_of(exec_); }
  const Exec& exec() const { return exec_; }

 private:
  template <class Space, class T = double>
  using Numbers = Kokkos::View<T*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  Exec exec_;
  std::size_t row_, layer_;
  Points points_;
};

/// Memory in a memory space, zeroed. Lambdas capture a view of it.
template <class Space>
class ArrayIn {
 public:
  ArrayIn(Device&, std::size_t count) : values_("poisson::Array", count) {}
  auto view() { return values_; }
  double* data() { return values_.data(); }

 private:
  Kokkos::View<double*, Space> values_;
};
using Array = ArrayIn<Memory>;
/// Host memory that a device copies from fast, if this Kokkos has a space for it.
#ifdef KOKKOS_HAS_SHARED_HOST_PINNED_SPACE
using StagingArray = ArrayIn<Kokkos::SharedHostPinnedSpace>;
#else
using StagingArray = ArrayIn<Kokkos::HostSpace>;
#endif

/// Calls that are repeated. Not as a graph, because Kokkos may allocate or wait in a reduction.
class Batch {
 public:
  Batch(Device&, bool /*capturable*/, std::function<void()> calls) : calls_(std::move(calls)) {}
  void run() { calls_(); }

 private:
  std::function<void()> calls_;
};

}  // namespace poisson
