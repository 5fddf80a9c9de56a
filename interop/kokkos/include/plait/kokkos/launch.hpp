// Kernels of a program's own (plait/kernel.hpp) that are written for Kokkos teams: docs/kokkos.md.
// The program links plait::kokkos and plait::kernels.
//
//     struct Shift {  // each rank's team moves a row of the next rank's memory here
//       Kokkos::View<float**> to;
//       template <class Here, class Team>
//       KOKKOS_FUNCTION void operator()(Here& here, const Team& team,
//                                       plait::PeerView<float> from) const {
//         if (!here.barrier()) return;
//         const int row = team.league_rank(), columns = to.extent_int(1);
//         Kokkos::parallel_for(Kokkos::TeamThreadRange(team, columns), [&](int i) {
//           to(row, i) = from[from.after()][row * columns + i];
//         });
//         here.barrier();
//       }
//     };
//     plait::kokkos::launch(comm, Kokkos::TeamPolicy<>(exec, rows, Kokkos::AUTO), Shift{to},
//                           plait::view_of(comm, buffer));
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "plait/kernel.hpp"
#include "plait/kokkos/buffers.hpp"
#include "plait/kokkos/spaces.hpp"

namespace plait::kokkos {
namespace detail {

/// Teams, the threads of each, vector lanes of each thread, and a team's bytes of scratch memory of
/// either level.
struct League {
  int teams, threads, lanes;
  int scratch[2];

  template <class Policy>
  Policy with_scratch(Policy policy) const {
    for (const int level : {0, 1}) policy.set_scratch_size(level, Kokkos::PerTeam(scratch[level]));
    return policy;
  }
};

/// What a team on a GPU runs. Kokkos copies it as bytes.
template <class Words, class Args>
struct TeamOnGpu {
  Args args;
  Watch watch;

  PLAIT_CALLS_HOST
  template <class Team>
  PLAIT_DEVICE void operator()(const Team& team) const {
    Words::run(watch, [&](Words& words) PLAIT_INLINED {
      Here<Words> here(words, args.setting);
      args.arguments.apply(args.kernel, here, team);
    });
  }
};

#if defined(KOKKOS_ENABLE_SERIAL)
/// Where Kokkos has several instances, one of its own: each is locked while it runs, and the teams
/// of two ranks of this process may wait for each other.
inline Kokkos::Serial serial() {
#if KOKKOS_VERSION >= 30600
  return Kokkos::Experimental::partition_space(Kokkos::Serial(), 1)[0];
#else
  return {};
#endif
}
#endif

template <class Exec, class Kernel, class... A>
struct TeamKernel {
  struct Args {
    KernelSetting setting;
    Kernel kernel;
    plait::detail::Arguments<A...> arguments;
    Exec exec;
    League league;
  };

#if defined(KOKKOS_ENABLE_SERIAL)
  /// One thread runs all teams, one after the other.
  static void run(host::KernelWords& words, const Args& args) {
    if (words.thread() != 0) return;
    using Policy = Kokkos::TeamPolicy<Kokkos::Serial>;
    const League& league = args.league;
    Kokkos::parallel_for(league.with_scratch(Policy(serial(), league.teams, 1)),
                         [&](const typename Policy::member_type& team) {
                           host::Team alone(1);
                           host::KernelWords block(static_cast<unsigned>(team.league_rank()),
                                                   static_cast<unsigned>(league.teams), 0, alone,
                                                   words.watch(), words.buffer());
                           Here<host::KernelWords> here(block, args.setting);
                           args.arguments.apply(args.kernel, here, team);
                         });
  }
#endif
  /// A larger functor Kokkos would copy through memory that its kernels share, and wait for the
  /// last of these.
  template <class Words, class Stream>
  static void launch(const Args& args, const Watch& watch, Stream stream) {
    using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<512, 1>>;
    static_assert(sizeof(Args) <= 3400, "the arguments of a kernel of teams have up to 3 KB");
    const League& league = args.league;
    const Exec exec = stream == stream_of(args.exec).native() ? args.exec : Exec(stream);
    Kokkos::parallel_for(
        Kokkos::Experimental::require(
            league.with_scratch(Policy(exec, league.teams, league.threads, league.lanes)),
            Kokkos::Experimental::WorkItemProperty::HintLightWeight),
        TeamOnGpu<Words, Args>{args, watch});
  }

  static constexpr std::string_view name() { return __PRETTY_FUNCTION__; }
  static constexpr std::uint64_t number = number_of_own_kernel(name());
  using Targets = KernelOfAnotherLibrary<TeamKernel, Args, runs_on_host<Exec>>;
  static inline const Registration registration{[] { Targets::add(name()); }};
};

}  // namespace detail

/// `plait::launch` for `kernel(here, team, arguments...)`, where `team` is a member of a team of
/// the policy's execution space: a team is a block, and its rank in the league the block's number.
/// The policy says how many teams there are, up to 256; how many threads and vector lanes each has,
/// up to 512 together, 512 with Kokkos::AUTO; and how much scratch memory. The rest of it is
/// ignored. All ranks give the same three numbers. On host spaces a team has one thread, and teams
/// run one after the other.
///
/// Ordered with the policy's execution space like all calls of plait/kokkos.hpp. The kernel and the
/// arguments may have views in them; what they count must live until the kernel has ended, as with
/// Kokkos::parallel_for, and the execution space, too. On GPUs the kernel is loaded when it first
/// runs, and then must not be awaited by kernels of another communicator on the same device.
///
/// Errors as those of `plait::launch`; `Error(invalid_argument)` also if the execution space is not
/// on the communicator's target. On host spaces Kokkos needs `Serial`.
template <class Kernel, class... A, class... Properties>
void launch(Communicator& comm, const Kokkos::TeamPolicy<Properties...>& policy,
            const Kernel& kernel, const A&... arguments) {
  using Exec = typename Kokkos::TeamPolicy<Properties...>::execution_space;
  constexpr bool on_host = detail::runs_on_host<Exec>;
  const Exec exec = policy.space();
  const Call call{.collective = Collective::barrier};
  detail::Checks(comm, call, "launch")
      .targets(detail::backend_of<Exec>, Exec::name(), comm.backend_kind());
  detail::League league{static_cast<int>(policy.league_size()), 1, 1, {}};
  if (!on_host) {
    league.lanes = std::max(static_cast<int>(policy.impl_vector_length()), 1);
    const int asked = policy.team_size();
    league.threads = asked > 0 ? asked : 512 / league.lanes;
  }
  for (const int level : {0, 1})
    league.scratch[level] = static_cast<int>(policy.scratch_size(level, league.threads));
  const unsigned teams = static_cast<unsigned>(league.teams),
                 threads = static_cast<unsigned>(league.threads * league.lanes);
  const bool in_one_block = on_host && teams - 1 < KernelSetting::max_blocks;
  const detail::Region region("launch", call);
  detail::in_order(exec, comm, [&](StreamRef stream) {
    plait::detail::launch_with<detail::TeamKernel<Exec, Kernel, A...>>(
        comm, stream,
        {.shape = {in_one_block ? 1 : teams, threads},
         .rows_of_matrix = teams,
         .columns_of_matrix = threads},
        {{}, kernel, plait::detail::in_order(arguments...), exec, league}, arguments...);
  });
}

}  // namespace plait::kokkos
