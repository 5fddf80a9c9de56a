// Kernels of the program's own for Kokkos teams: groups, and what is refused. device_test.cpp has
// what they compute.
#include <plait/kokkos/launch.hpp>

#include "errors.hpp"

namespace plait::test {
namespace {

using Policy = Kokkos::TeamPolicy<Exec>;

/// Each team adds a number to what the rank before has, with its place in the league.
struct Add {
  Kokkos::View<long*, Kokkos::HostSpace> sums;
  template <class Here, class Team>
  void operator()(Here& here, const Team& team, PeerView<long> numbers, long number) const {
    const int place = team.league_rank();
    if (here.thread() == 0) numbers.own()[place] = number * (place + 1);
    if (!here.barrier()) return;
    Kokkos::single(Kokkos::PerTeam(team), [&] { sums(place) += numbers[numbers.before()][place]; });
    here.barrier();
  }
};
/// Waits for signals that nobody sends.
struct WaitInVain {
  template <class Here, class Team>
  void operator()(Here& here, const Team& team) const {
    if (team.league_rank() == 2) static_cast<void>(here.wait((here.rank() + 1) % here.ranks(), 5));
  }
};

TEST(Launch, RunsAtTheEndOfAGroup) {
  const Exec exec;
  constexpr int teams = 256;
  const kokkos::SymmetricBuffer<long, Kokkos::HostSpace> numbers(comm(), teams);
  const Kokkos::View<long*, Kokkos::HostSpace> sums("sums", teams);
  {
    const Group group;
    for (long call = 0; call < 10; ++call)
      kokkos::launch(comm(), Policy(exec, teams, Kokkos::AUTO), Add{sums},
                     view_of(comm(), numbers.buffer()), comm().rank() * 1000 + call);
    for (int team = 0; team < teams; ++team) EXPECT_EQ(sums(team), 0);
  }
  kokkos::synchronize(exec, comm());
  for (int team = 0; team < teams; ++team)
    ASSERT_EQ(sums(team), (10'000 * previous() + 45) * (team + 1));
}

TEST(Launch, WrongLeagues) {
  const Exec exec;
  EXPECT_EQ(error_of([&] { kokkos::launch(comm(), Policy(exec, 257, 1), WaitInVain{}); }),
            from("launch") + "257 blocks, and a kernel has 1 to 256");
  EXPECT_EQ(error_of([&] { kokkos::launch(comm(), Policy(exec, 0, 1), WaitInVain{}); }),
            from("launch") + "0 blocks, and a kernel has 1 to 256");
}

/// The error that breaks a communicator of all ranks, which wait in leagues of so many teams.
Error broken_by(int teams) {
  CommunicatorOptions options = kokkos::communicator_options(Exec());
  options.timeout = std::chrono::milliseconds(300);
  Communicator other = make_communicator(MPI_COMM_WORLD, options);
  try {
    kokkos::launch(other, Policy(Exec(), teams, 1), WaitInVain{});
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::unsupported, "no error");
}

TEST(Launch, SaysWhichTeamWaits) {
  const Error error = broken_by(4);
  EXPECT_EQ(error.code(), ErrorCode::timeout);
  EXPECT_THAT(error.what(), HasSubstr("in block 2 in slot 5 (expected 1, saw 0)"));
}

TEST(Launch, LeaguesThatDifferAreFound) {
  const Error error = broken_by(rank() == 0 ? 3 : 4);
  EXPECT_EQ(error.code(), ranks() == 1 ? ErrorCode::timeout : ErrorCode::mismatch) << error.what();
}

}  // namespace
}  // namespace plait::test
