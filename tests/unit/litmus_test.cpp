// Packets, lines, marked data and published messages by the million between all ranks: none may
// ever be torn, early or stale.
#include "unit/litmus/fixture.hpp"

namespace plait::test {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Litmus, Litmus::all(), Litmus::name);

TEST_P(Litmus, NothingIsTornEarlyOrStale) {
  int ranks = 4;
  while (ranks > 2 && !why_not(ranks).empty()) --ranks;
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  run_ranks(ranks, [](Communicator& comm, int) { check(comm); });
}

}  // namespace
}  // namespace plait::test
