// Maps a Kokkos execution space to a target of Plait and a stream on it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "plait/communicator.hpp"
#include "plait/group.hpp"

namespace plait::kokkos {
namespace detail {

// Spaces are recognised by their members instead of their names, so this compiles with every
// Kokkos, whatever is enabled in it.
template <class Exec>
inline constexpr bool runs_on_cuda = requires(const Exec& exec) {
  exec.cuda_stream();
};
template <class Exec>
inline constexpr bool runs_on_hip = requires(const Exec& exec) {
  exec.hip_stream();
};
template <class Exec>
constexpr bool find_runs_on_host() {
  if constexpr (!Kokkos::is_execution_space<Exec>::value || runs_on_cuda<Exec> || runs_on_hip<Exec>)
    return false;
  else return Kokkos::SpaceAccessibility<Exec, Kokkos::HostSpace>::accessible;
}
template <class Exec>
inline constexpr bool runs_on_host = find_runs_on_host<Exec>();
template <class Exec>
inline constexpr bool has_target = runs_on_cuda<Exec> || runs_on_hip<Exec> || runs_on_host<Exec>;

template <class Exec>
inline constexpr BackendKind backend_of = runs_on_cuda<Exec>  ? BackendKind::cuda
                                          : runs_on_hip<Exec> ? BackendKind::hip
                                                              : BackendKind::host;

}  // namespace detail

/// The stream that orders calls with `exec`: on CUDA and HIP the instance's own, on the host the
/// calling thread's default stream.
template <class Exec>
StreamRef stream_of(const Exec& exec) {
  static_assert(
      detail::has_target<Exec>,
      "plait::kokkos: the execution space runs neither on CUDA, nor on HIP, nor on the host");
  if constexpr (detail::runs_on_cuda<Exec>) return exec.cuda_stream();
  else if constexpr (detail::runs_on_hip<Exec>) return exec.hip_stream();
  else return {};
}

/// Options for a communicator that fits `exec`: its target and, on a GPU, its device. Kokkos must
/// be initialised.
template <class Exec = Kokkos::DefaultExecutionSpace>
CommunicatorOptions communicator_options(const Exec& exec = Exec()) {
  static_assert(
      detail::has_target<Exec>,
      "plait::kokkos: the execution space runs neither on CUDA, nor on HIP, nor on the host");
  CommunicatorOptions options;
  options.backend = detail::backend_of<Exec>;
  if constexpr (detail::runs_on_cuda<Exec>) options.device = exec.cuda_device();
  else if constexpr (detail::runs_on_hip<Exec>) options.device = exec.hip_device();
  return options;
}

/// Waits until all work on `exec` is complete, calls of `comm` included. Like `exec.fence()`, but
/// throws the `Error` that broke the communicator, if there is one (`Communicator::synchronize`).
template <class Exec>
void synchronize(const Exec& exec, Communicator& comm) {
  if constexpr (detail::runs_on_host<Exec>) exec.fence();
  comm.synchronize(stream_of(exec));
}

namespace detail {

/// Enqueues on `exec` by `enqueue(stream)`. Host spaces have no stream that Plait's host target
/// could share; their order is that of the calling thread. So earlier work is complete when the
/// call begins, and the call is complete when this returns. Within a group nothing runs before the
/// group's end, so there is nothing to wait for yet.
template <class Exec, class Enqueue>
void in_order(const Exec& exec, Communicator& comm, const Enqueue& enqueue) {
  if constexpr (runs_on_host<Exec>) exec.fence();
  enqueue(stream_of(exec));
  if constexpr (runs_on_host<Exec>)
    if (!group_is_open()) comm.synchronize();
}

/// A region of Kokkos's profiling, "plait::all_reduce [bf16, 1024]", if a tool listens.
class Region {
 public:
  Region(std::string_view function, const Call& call)
      : open_(Kokkos::Tools::profileLibraryLoaded()) {
    if (!open_) return;
    std::string name = "plait::" + std::string(function);
    if (call.collective != Collective::barrier)
      name += " [" + std::string(name_of(call.type)) + ", " + std::to_string(call.count) + "]";
    Kokkos::Profiling::pushRegion(name);
  }
  explicit Region(const Call& call) : Region(name_of(call.collective), call) {}
  ~Region() {
    if (open_) Kokkos::Profiling::popRegion();
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  bool open_;
};

}  // namespace detail
}  // namespace plait::kokkos
