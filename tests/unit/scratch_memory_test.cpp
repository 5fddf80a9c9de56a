// What a communicator is set up with: facts of the devices, and the limits and shares of scratch
// memory.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/resources/algorithm_memory.hpp"
#include "communicator/resources/setup.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "support/every_algorithm.hpp"

namespace plait {
namespace {

using test::message_of;

/// The facts that all ranks may rely on: the lesser rate, the longer time.
TEST(Facts, OfTwoDevicesTheWeakerCounts) {
  const DeviceFacts good{.units = 9,
                         .block_threads = 9,
                         .max_block_threads = 9,
                         .line_threads = 9,
                         .indexed_arguments = true,
                         .peer_reads = true,
                         .launch_us = 1,
                         .hop_us = 1,
                         .signal_us = 1,
                         .link_bandwidth = 9,
                         .push_bandwidth = 9,
                         .packet_bandwidth = 9,
                         .copy_us = 1,
                         .copy_bandwidth = 9};
  const DeviceFacts bad{.units = 2,
                        .block_threads = 3,
                        .max_block_threads = 4,
                        .line_threads = 5,
                        .indexed_arguments = false,
                        .peer_reads = false,
                        .launch_us = 2,
                        .hop_us = 3,
                        .signal_us = 4,
                        .link_bandwidth = 6,
                        .push_bandwidth = 7,
                        .packet_bandwidth = 8,
                        .copy_us = 5,
                        .copy_bandwidth = 1};
  EXPECT_EQ(weaker(good, bad), bad);
  EXPECT_EQ(weaker(bad, good), bad);
  EXPECT_EQ(weaker(good, good), good);
}

class ScratchMemory : public testing::TestWithParam<BackendKind> {
 protected:
  static constexpr std::size_t mega = std::size_t{1} << 20;

  Topology topology(int ranks) const {
    const bool host = GetParam() == BackendKind::host, cuda = GetParam() == BackendKind::cuda;
    Topology topology;
    topology.backend = GetParam();
    topology.units = host ? 2 : 132;
    topology.line_threads = host ? 1 : cuda ? 8 : 0;
    topology.ranks = ranks;
    return topology;
  }
  /// Scratch memory of a communicator with that limit; 0: the limit is refused.
  std::size_t bytes(std::size_t limit, Topology topology) const {
    try {
      topology.scratch_limit = scratch_within(limit, topology, all_);
    } catch (const Error&) {
      return 0;
    }
    EXPECT_LE(topology.scratch_limit, limit);
    return MemoryLayout(topology, all_).bytes();
  }
  /// The least limit that is not refused: what the error says.
  std::size_t least(const Topology& topology) const {
    const std::string text =
        message_of(ErrorCode::invalid_argument, [&] { scratch_within(0, topology, all_); });
    return std::stoull(text.substr(text.find("at least ") + 9));
  }

  const std::vector<const Algorithm*> all_ = test::every_algorithm();
};
INSTANTIATE_TEST_SUITE_P(All, ScratchMemory,
                         testing::Values(BackendKind::host, BackendKind::cuda, BackendKind::hip),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// Shares of the default of PLAIT_SCRATCH_BYTES need not be made smaller, whatever the number of
/// ranks. The same holds for less and for more memory.
TEST_P(ScratchMemory, SharesFitIntoTheDefault) {
  for (const auto& [limit, most_ranks] : {std::pair(16, 8), std::pair(64, 16), std::pair(128, 64),
                                          std::pair(384, 64), std::pair(512, 64)})
    for (int ranks = 1; ranks <= most_ranks; ++ranks)
      EXPECT_EQ(scratch_within(limit * mega, topology(ranks), all_), limit * mega)
          << limit << " MB, " << ranks << " ranks";
}

/// If some limit is enough, so is every larger one; and the error says which is.
TEST_P(ScratchMemory, MoreIsAlwaysEnough) {
  std::vector<std::size_t> limits;
  for (std::size_t limit = mega / 4; limit <= 16 * mega; limit += mega / 4) limits.push_back(limit);
  for (std::size_t limit = 32 * mega; limit <= 512 * mega; limit *= 2) limits.push_back(limit);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::size_t enough = least(topology(ranks));
    limits.insert(limits.end(), {enough - 1, enough, enough + 1});
    for (const std::size_t limit : limits) {
      const std::size_t used = bytes(limit, topology(ranks));
      EXPECT_LE(used, limit) << ranks << " ranks";
      EXPECT_EQ(used != 0, limit >= enough)
          << ranks << " ranks, limit " << limit << ", least " << enough;
    }
  }
}

/// The limits that docs/environment.md says are enough.
TEST_P(ScratchMemory, LeastIsAsDocumented) {
  for (const auto& [ranks, enough] : {std::pair(2, 1), std::pair(4, 2), std::pair(8, 3)})
    EXPECT_NE(bytes(enough * mega, topology(ranks)), 0u) << ranks << " ranks";
}

/// The memory that is there from the start, for any limit, if memory is committed as calls need it.
/// Messages need no more, and shares that are windows by themselves are as large as without.
TEST_P(ScratchMemory, BaseIsSmallAndServesMessages) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    Topology whole = topology(ranks);
    const std::size_t usual = default_scratch(whole);
    for (const std::size_t limit :
         {48 * mega, usual, std::size_t{1} << 30, std::size_t{16} << 30}) {
      Topology grows = whole;
      grows.base_limit = base_scratch;
      whole.scratch_limit = grows.scratch_limit =
          scratch_within(limit + base_scratch / 2, grows, all_, limit);
      EXPECT_TRUE(limit != usual || grows.scratch_limit == limit)
          << ranks << " ranks, " << grows.scratch_limit;
      const MemoryLayout layout(grows, all_), at_once(whole, all_);
      EXPECT_EQ(at_once.windows.size(), 1u);
      EXPECT_LE(layout.windows.front(), base_scratch) << ranks << " ranks, limit " << limit;
      for (std::size_t i = 0; i < all_.size(); ++i) {
        const auto& [own, common, reserved] = layout.places[i];
        if (all_[i]->collective() == Collective::send_recv) {
          EXPECT_EQ(own.window + common.value_or(own).window, 0u) << all_[i]->name();
        } else {
          EXPECT_EQ(all_[i]->resources(grows), all_[i]->resources(whole)) << all_[i]->name();
        }
        for (const MemoryLayout::Place& at : {own, common.value_or(own)})
          EXPECT_TRUE(at.window == 0 || at.scratch == 0) << all_[i]->name();
      }
    }
  }
}

}  // namespace
}  // namespace plait
