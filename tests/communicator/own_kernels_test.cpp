// Kernels of a program's own: peers' memory, signals, barriers and sums, by ranks that are threads,
// and the errors of wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "communicator/own_kernels/checks.hpp"
#include "communicator/own_kernels/kernels.hpp"
#include "fault/deadline.hpp"
#include "plait/group.hpp"
#include "support/data.hpp"
#include "support/errors.hpp"
#include "support/pretend_nodes.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

class OwnKernels : public ForRanks {
 protected:
  static void run(const std::function<void(Communicator&, int)>& body,
                  const CommunicatorOptions& options = {}) {
    run_ranks(ranks(), body, options);
  }
};
INSTANTIATE_TEST_SUITE_P(All, OwnKernels, testing::Values(1, 2, 3, 4, 8), TestName());

TEST_P(OwnKernels, LoadPeersMemory) {
  run([](Communicator& comm, int) { check_shift(comm); });
}
TEST_P(OwnKernels, AreCaptured) {
  run([](Communicator& comm, int) { check_shift_in_graphs(comm); });
}
TEST_P(OwnKernels, StandInGroups) {
  run([](Communicator& comm, int) { check_shift_in_groups(comm); });
}
TEST_P(OwnKernels, SignalAndWait) {
  run([](Communicator& comm, int) { check_all_to_all(comm); });
}
TEST_P(OwnKernels, Sum) {
  run([](Communicator& comm, int) { check_sums(comm); });
}

TEST_P(OwnKernels, OfOneName) {
  run([](Communicator& comm, int) { check_names(comm); });
}

TEST_P(OwnKernels, SeeAttachedMemory) {
  run([](Communicator& comm, int rank) {
    const std::size_t count = 5000, shift = 4 * static_cast<std::size_t>(rank);
    Backend& backend = backend_of(comm);
    auto* const memory = static_cast<std::uint32_t*>(backend.allocate(2 * count * sizeof(int)));
    const auto window = comm.attach(memory + shift, count * sizeof(int));
    DeviceValues<std::uint32_t> to(comm, count);
    std::vector<std::uint32_t> mine(count), next(count);
    for (std::size_t i = 0; i < count; ++i) {
      mine[i] = static_cast<std::uint32_t>(hash(7, static_cast<std::uint64_t>(rank), i));
      next[i] = static_cast<std::uint32_t>(
          hash(7, static_cast<std::uint64_t>((rank + 1) % comm.size()), i));
    }
    comm.copy(memory + shift, mine.data(), count * sizeof(int));
    const auto view = view_of<std::uint32_t>(comm, window);
    launch_shift(comm, {}, {3, 32}, view, to.data(), count);
    EXPECT_EQ(to.get(), next);
    if (target() == BackendKind::host) {
      EXPECT_EQ(comm.peer(window, rank), view.own());
      EXPECT_EQ(comm.peer(window, (rank + 1) % comm.size()), view[view.after()]);
    }
    comm.detach(window);
    expect_invalid(
        [&] {
          launch_shift(comm, {}, {3, 32}, view, to.data(), count);
        },
        "launch: rank", "a view of memory");
    expect_invalid([&] { view_of<std::uint32_t>(comm, window); }, "view_of: rank");
    // The same memory again, which ordinary calls don't take for symmetric, and its empty end.
    const auto again = comm.attach(memory + shift, count * sizeof(int), WindowUse::one_sided);
    expect_invalid(
        [&] {
          launch_shift(comm, {}, {3, 32}, view, to.data(), count);
        },
        "launch: rank", "a view of memory");
    const auto renewed = view_of<std::uint32_t>(comm, again);
    launch_shift(comm, {}, {3, 32}, renewed, to.data(), count);
    launch_shift(comm, {}, {3, 32}, renewed.at(count), to.data(), 0);
    EXPECT_EQ(to.get(), next);
    comm.detach(again);
    comm.synchronize();
    backend.deallocate(memory);
  });
}

TEST_P(OwnKernels, BadLaunchesAreRefused) {
  run([](Communicator& comm, int) {
    DeviceValues<std::uint32_t> from(comm, 8), to(comm, 8);
    const auto view = view_of(comm, from.buffer());
    const auto launch = [&](LaunchShape shape) {
      return [&, shape] { launch_shift(comm, {}, shape, view, to.data(), 8); };
    };
    expect_invalid(launch({0, 32}), "launch: rank", "0 blocks");
    expect_invalid(launch({257, 32}), "257 blocks", "1 to 256");
    expect_invalid(in_a_group(launch({0, 32})), "0 blocks");
    expect_invalid(launch({1, 513}), "513 threads per block, and a block has 1 to 512");
    expect_invalid(launch({1, 0}), "0 threads");
    expect_invalid([&] { comm.peer(from.buffer().window(), comm.size()); }, "there is no rank");
    expect_invalid([&] { view_of<int>(comm, nullptr); }, "null");
    launch({2, 32})();
    comm.synchronize();
  });
}

/// Also where its number is that of memory of this one.
TEST_P(OwnKernels, MemoryOfAnotherCommunicatorIsRefused) {
  run([](Communicator& comm, int rank) {
    const auto mine = comm.allocate<std::uint32_t>(8), to = comm.allocate<std::uint32_t>(8);
    Communicator other = *comm.split(0, rank);
    const auto its = other.allocate<std::uint32_t>(8);
    const auto view = view_of(comm, mine), its_view = view_of(other, its);
    EXPECT_EQ(view.peers().number, its_view.peers().number);
    expect_invalid(
        [&] {
          launch_shift(comm, {}, {1, 32}, its_view, to.data(), 8);
        },
        "a view of memory");
    launch_shift(comm, {}, {1, 32}, view, to.data(), 8);
    comm.synchronize();
  });
}

/// The sentence begins with who is to blame, and names the rank, the block and the slot.
struct WrongKernel {
  Wrong::Way way;
  const char *begins, *where;
};
class WrongKernels : public testing::TestWithParam<WrongKernel> {};
INSTANTIATE_TEST_SUITE_P(
    All, WrongKernels,
    testing::Values(
        WrongKernel{Wrong::Way::no_signal, "rank 1 has ended", "in slot 3 (expected 1, saw 0)"},
        WrongKernel{Wrong::Way::other_slot, "rank 1 has ended", "in slot 3 (expected 1, saw 0)"},
        WrongKernel{Wrong::Way::no_such_slot, "rank 0 waits for itself",
                    "in a slot or for a rank that there is not"},
        WrongKernel{Wrong::Way::no_such_rank, "rank 0 waits for itself",
                    "in a slot or for a rank that there is not"},
        WrongKernel{Wrong::Way::no_barrier, "rank 1 has ended", "in a barrier"},
        WrongKernel{Wrong::Way::no_sum, "rank 1 has ended", "in a sum"}));

TEST_P(WrongKernels, EndAtTheDeadline) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const WrongKernel& wrong = GetParam();
  run_ranks(2, impatient(), [&](Communicator& comm, int) {
    DeviceValues<std::uint32_t> memory(comm, 8);
    launch_wrong(comm, {}, {1, 32}, wrong.way, view_of(comm, memory.buffer()));
    comm.barrier();
    const std::string text = message_of(ErrorCode::timeout, [&] { comm.synchronize(); });
    EXPECT_THAT(text, HasSubstr("(own_kernel)"));
    EXPECT_THAT(text, HasSubstr("block 0"));
    EXPECT_THAT(text, HasSubstr(wrong.begins));
    EXPECT_THAT(text, HasSubstr(wrong.where));
  });
}

TEST(OwnKernelsInOtherShapes, AreNamed) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, impatient(), [](Communicator& comm, int rank) {
    DeviceValues<std::uint32_t> memory(comm, 8), to(comm, 8);
    const LaunchShape shape{1, rank == 0 ? 32u : 64u};
    const std::string text = message_of(ErrorCode::mismatch, [&] {
      launch_shift(comm, {}, shape, view_of(comm, memory.buffer()), to.data(), 8);
      comm.barrier();
      comm.synchronize();
      stay(comm);
    });
    EXPECT_THAT(text, HasSubstr("1 blocks of 32 threads"));
    EXPECT_THAT(text, HasSubstr("1 blocks of 64 threads"));
  });
}

TEST(OwnKernelsThatDiffer, AreNamed) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, impatient(), [](Communicator& comm, int rank) {
    DeviceValues<std::uint32_t> memory(comm, 8), to(comm, 8);
    const auto view = view_of(comm, memory.buffer());
    const std::string text = message_of(ErrorCode::mismatch, [&] {
      if (rank == 0) launch_shift(comm, {}, {1, 32}, view, to.data(), 8);
      else launch_wrong(comm, {}, {1, 32}, Wrong::Way::no_signal, view);
      comm.synchronize();
    });
    EXPECT_THAT(text, HasSubstr("Shift"));
    EXPECT_THAT(text, HasSubstr("Wrong"));
  });
}

TEST(OwnKernelsOfOneRank, NameTheOther) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, impatient(), [](Communicator& comm, int rank) {
    DeviceValues<std::uint32_t> memory(comm, 8), to(comm, 8);
    if (rank == 1) return stay(comm);
    launch_shift(comm, {}, {1, 32}, view_of(comm, memory.buffer()), to.data(), 8);
    const std::string text = message_of(ErrorCode::timeout, [&] { comm.synchronize(); });
    EXPECT_THAT(text, HasSubstr("rank 1"));
    EXPECT_THAT(text, HasSubstr("Shift"));
  });
}

TEST(OwnKernelsOnNodes, AreRefused) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_on_nodes(nodes_of({1, 1}), {}, 64, [](Communicator& comm, Arena&) {
    const auto memory = comm.allocate<std::uint32_t>(8);
    expect_throws(
        ErrorCode::unsupported, [&] { view_of(comm, memory); }, "view_of");
    EXPECT_NO_THROW(comm.peer(memory.window(), comm.rank()));
    expect_throws(
        ErrorCode::unsupported,
        [&] {
          launch_wrong(comm, {}, {1, 32}, Wrong::Way::no_sum, {});
        },
        "launch", "one node");
  });
}

}  // namespace
}  // namespace plait::test
