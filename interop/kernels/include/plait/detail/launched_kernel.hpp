// A kernel of the program's own with its arguments, compiled for the targets of its file.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "algorithms/contract/registration.hpp"
#include "algorithms/own_kernels/kernel_setting.hpp"
#include "backends/all/targets.hpp"
#include "plait/communicator.hpp"
#include "plait/stream.hpp"

namespace plait {

template <class T>
class PeerView;
template <Device D>
class Here;

namespace detail {
inline namespace PLAIT_TARGETS {

/// The arguments of a kernel, in their order.
template <class... A>
struct Arguments {
  template <class Kernel, class... Before>
  PLAIT_DEVICE void apply(const Kernel& kernel, Before&... before) const {
    kernel(before...);
  }
};
template <class First, class... Rest>
struct Arguments<First, Rest...> {
  First first;
  Arguments<Rest...> rest;
  template <class Kernel, class... Before>
  PLAIT_DEVICE void apply(const Kernel& kernel, Before&... before) const {
    rest.apply(kernel, before..., first);
  }
};

/// The type by which messages name a kernel.
template <class Launched>
struct ShownAs {
  using type = Launched;
};

template <class Launched, class... A>
struct LaunchedKernel {
  struct Args {
    KernelSetting setting;
    Launched kernel;
    Arguments<A...> arguments;
  };
  /// Else nvcc keeps values in memory so that two blocks fit.
  static constexpr unsigned min_blocks_per_multiprocessor = 1;
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& args) {
    Here<D> here(dev, args.setting);
    args.arguments.apply(args.kernel, here);
  }
  /// Equal in all processes that the same compiler has compiled. Messages show its `Kernel`.
  template <class Kernel = typename ShownAs<Launched>::type>
  static constexpr std::string_view name() {
    return __PRETTY_FUNCTION__;
  }
  static constexpr std::uint64_t number = number_of_own_kernel(name());
  using Targets = KernelOfTargets<LaunchedKernel, Args>;
  static void add() { Targets::add(name()); }
  /// Before `main`, so the kernel is loaded before others wait on the device.
  static inline const Registration registration{add};
};

inline Arguments<> in_order() { return {}; }
template <class First, class... Rest>
Arguments<First, Rest...> in_order(const First& first, const Rest&... rest) {
  return {first, in_order(rest...)};
}

template <class T>
void add_window(std::span<PeerWindow>&, const T&) {}
template <class T>
void add_window(std::span<PeerWindow>& windows, const PeerView<T>& view) {
  windows.front() = view.peers();
  windows = windows.subspan(1);
}

/// `plait::launch` of `Launched` with these arguments, among them those that may be views.
template <class Launched, class... A>
void launch_with(Communicator& comm, StreamRef stream, KernelLaunch what,
                 const typename Launched::Args& args, const A&... arguments) {
  using Args = typename Launched::Args;
  static_assert(alignof(Args) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                "the library's copy of the arguments is aligned like memory of operator new");
  static_assert(sizeof(Args) <= max_kernel_args, "the arguments of a kernel have up to 3.8 KB");
  static_cast<void>(&Launched::registration);
  std::array<PeerWindow, sizeof...(A) + 1> windows;
  std::span<PeerWindow> left(windows);
  (add_window(left, arguments), ...);
  what.number = Launched::number;
  what.kernel = Launched::Targets::of;
  what.args = std::as_bytes(std::span(&args, 1));
  what.windows = {windows.data(), windows.size() - left.size()};
  comm.launch(what, stream);
}

template <class Kernel, class... A>
void launch(Communicator& comm, StreamRef stream, const KernelLaunch& what, const Kernel& kernel,
            const A&... arguments) {
  using Launched = LaunchedKernel<Kernel, A...>;
  static_assert(std::is_trivially_copyable_v<typename Launched::Args>,
                "the arguments of a kernel are copied as bytes");
  launch_with<Launched>(comm, stream, what, {{}, kernel, in_order(arguments...)}, arguments...);
}

}  // namespace PLAIT_TARGETS
}  // namespace detail

}  // namespace plait
