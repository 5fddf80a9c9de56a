// Long messages through few small slots, and messages on any number of lanes (blocks), with every
// algorithm that sends through channels. What the channels really carried is read from their
// counters.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/all_reduce/halving_doubling/schedule.hpp"
#include "algorithms/all_reduce/ring/primitives.hpp"
#include "algorithms/all_reduce/stream/plan.hpp"
#include "algorithms/all_reduce/tree/schedule.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/one_hop/direct_push/kernel.hpp"
#include "algorithms/rooted/chain/kernel.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/conveyor/conveyor.hpp"

namespace plait::test {
namespace {

using testing::Contains;

const AlgorithmRegistration<ConveyorAlgorithm> registration;  // sends nothing here

/// The algorithms of the registry that send a collective's data through channels on one node.
/// Messages have tests of their own (messages_test), and so have several nodes (nodes_test).
std::vector<std::string> users_of_channels(Collective collective) {
  Topology topology;
  topology.ranks = 2;
  topology.scratch_limit = std::size_t{128} << 20;
  Call call;
  call.collective = collective;
  call.count = 16;  // blocks that are whole packs
  call.symmetric = true;
  call.parts = parts_of(collective, topology.ranks);
  std::vector<std::string> names;
  for (const auto& algorithm : Registry::instance().all())
    if (algorithm->collective() == collective && algorithm->name() != "conveyor" &&
        !algorithm->is_lossy() && algorithm->shared(topology).name == "channels" &&
        can_serve(*algorithm, call, topology))
      names.emplace_back(algorithm->name());
  return names;
}

/// An algorithm that sends through channels, and how. `phases` 0: not known, so the test checks
/// only its results, and that its channels wrap.
struct Carrier {
  std::string name;
  std::uint32_t slots;
  unsigned parts;      // with two ranks, a channel carries the message / parts
  bool in_rank_order;  // sums terms in the order of ranks, wherever they are
  unsigned phases;     // in which data travel through slots: reduction, and distribution of the sum
};
std::vector<Carrier> carriers() {
  std::vector<Carrier> all = {{"halving_doubling", halving_doubling::Schedule::slots, 2, false, 2},
                              {"ring", ring::slots, 1, false, 2},
                              {"stream", stream::Plan::slots, 1, true, 2},
                              {"tree", tree::Steps::slots, 1, false, 2}};
  for (const std::string& name : users_of_channels(Collective::all_reduce))
    if (std::none_of(all.begin(), all.end(),
                     [&](const Carrier& carrier) { return carrier.name == name; }))
      all.push_back({name, 1, 1, false, 0});
  return all;
}
void PrintTo(const Carrier& carrier, std::ostream* out) { *out << carrier.name; }
std::string test_name(const Carrier& carrier) { return carrier.name; }

/// Those of the other collectives. `slots` 0: not known, as above.
struct OtherCarrier {
  Subject subject;
  std::uint32_t slots;
};
std::string test_name(const OtherCarrier& carrier) { return test_name(carrier.subject); }
std::vector<OtherCarrier> other_carriers() {
  const std::map<std::string, std::uint32_t> known{{"chain", chain::slots},
                                                   {"direct_push", direct_push::slots}};
  std::vector<OtherCarrier> all;
  for (const Collective collective : direct_collectives)
    for (const std::string& name : users_of_channels(collective)) {
      const auto found = known.find(name);
      all.push_back({{collective, name}, found == known.end() ? 0 : found->second});
    }
  return all;
}

TEST(Carriers, AreThere) {
  for (const Carrier& carrier : carriers())
    EXPECT_THAT(users_of_channels(Collective::all_reduce), Contains(carrier.name));
  for (const char* name : {"chain", "direct_push"})
    EXPECT_THAT(users_of_channels(Collective::reduce), Contains(name));
}

/// Counts the chunks that the channels from a rank have carried since the last look.
class Odometer {
 public:
  explicit Odometer(Communicator& comm) : comm_(comm), access_(comm), before_(access_.states()) {}
  ChannelAccess& access() { return access_; }

  struct Carried {
    unsigned lanes = 0;         // blocks that sent anything
    std::uint32_t least = ~0u;  // chunks through a channel that was used
    std::uint32_t wraps = 0;    // how often at least such a channel came back to its first slot
    std::uint64_t chunks = 0;   // of all channels together
  };
  Carried look(std::uint32_t slots) {
    const auto now = access_.states();
    Carried carried;
    for (unsigned block = 0; block < now.size() / Channels::count(comm_.size(), 1); ++block) {
      bool used = false;
      for (unsigned way = 0; way < Channels::ways; ++way)
        for (int peer = 0; peer < comm_.size(); ++peer) {
          if (peer == comm_.rank()) continue;
          const std::size_t i = access_.index(block, way, peer);
          const std::uint32_t sent = now[i].sent - before_[i].sent;
          if (sent == 0) continue;
          used = true;
          carried.least = std::min(carried.least, sent);
          carried.chunks += sent;
        }
      carried.lanes += used ? 1 : 0;
    }
    carried.wraps = carried.lanes == 0 ? 0 : (carried.least - 1) / slots;
    before_ = now;
    return carried;
  }

 private:
  Communicator& comm_;
  ChannelAccess access_;
  std::vector<ChannelState> before_;
};

/// Whether all ranks together have sent `bytes` in slots, and hardly a slot more than that: no
/// chunk travels twice, and only the last chunk of a part may leave a slot half empty. Collective.
void expect_sent(Communicator& comm, std::uint64_t chunks, std::size_t slot_bytes,
                 std::size_t bytes) {
  const auto all = comm.bootstrap().all_gather(chunks);
  const std::size_t sent = std::accumulate(all.begin(), all.end(), std::size_t{0}) * slot_bytes;
  EXPECT_GE(sent, bytes);
  EXPECT_LE(sent, bytes + bytes / 16);
}

class Lanes : public testing::TestWithParam<std::tuple<int, Carrier>> {
 protected:
  void SetUp() override {
    PLAIT_SKIP_UNLESS_RANKS_FIT(ranks());
    const auto here = all_reduce_algorithms();
    if (std::find(here.begin(), here.end(), name()) == here.end())
      GTEST_SKIP() << name() << " does not run on this target";
  }
  static const Carrier& carrier() { return std::get<1>(GetParam()); }
  static const std::string& name() { return carrier().name; }
  static int ranks() { return std::get<0>(GetParam()); }

  template <class T>
  void check_order_of_terms(Communicator& comm, Arena& arena, unsigned blocks,
                            std::size_t count) const;

  /// The bytes that all ranks together send for a message of so many bytes.
  static std::size_t bytes_sent(std::size_t bytes) {
    return static_cast<std::size_t>(ranks() - 1) * carrier().phases * bytes;
  }
};
// Ordered by ranks: the cached group of communicators is made once for all algorithms, and not
// before each.
INSTANTIATE_TEST_SUITE_P(All, Lanes,
                         testing::Combine(testing::Values(2, 3, 4), testing::ValuesIn(carriers())),
                         TestName());

/// One block, slots of 1 or 2 KB, 64 times all of them and more; the counters pass 2^32 and 2^31 in
/// the middle of a message.
TEST_P(Lanes, SlotsGoRoundManyTimesInACall) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", ranks() == 2 ? "5M" : "10M");
  RankGroup group(ranks());
  group.run([&](Communicator& comm, Arena& arena) {
    constexpr std::size_t count = 280'001;
    Odometer odometer(comm);
    const std::size_t slot_bytes = odometer.access().channel_bytes() / carrier().slots;
    std::uint64_t seed = 0;
    for (const std::uint32_t start : {0u, 0u - 100u, 0x80000000u - 100u}) {
      odometer.access().make_old(start);
      odometer.look(carrier().slots);
      for (const bool in_place : {false, true}) {
        check(comm, arena,
              {.algorithm = name(),
               .type = DataType::i32,
               .count = count,
               .in_place = in_place,
               .symmetric = true,
               .blocks = 1,
               .seed = ++seed});
        const auto carried = odometer.look(carrier().slots);
        EXPECT_EQ(carried.lanes, 1u);
        EXPECT_GE(carried.least, 64 * carrier().slots) << "the message was to be longer";
        EXPECT_GE(carried.wraps, 63u);
        if (carrier().phases != 0)
          expect_sent(comm, carried.chunks, slot_bytes, bytes_sent(count * sizeof(std::int32_t)));
      }
      comm.bootstrap().barrier();
    }
  });
}

class LaneSeries : public Lanes {};
INSTANTIATE_TEST_SUITE_P(All, LaneSeries,
                         testing::Combine(testing::Values(2), testing::ValuesIn(carriers())),
                         TestName());

TEST_P(LaneSeries, LongMessages) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "5M");
  RankGroup group(ranks());
  group.run([&](Communicator& comm, Arena& arena) {
    constexpr std::uint64_t calls = under_tsan ? 10 : 200;
    const std::size_t count = carrier().parts * 33'003;
    Odometer odometer(comm);
    const std::size_t slot_bytes = odometer.access().channel_bytes() / carrier().slots;
    odometer.access().make_old(0u - 3'000u);
    odometer.look(carrier().slots);
    std::size_t elements = 0;
    for (std::uint64_t call = 0; call < calls; ++call) {
      check(comm, arena,
            {.algorithm = name(),
             .type = DataType::i64,
             .count = count + call % 61,
             .symmetric = true,
             .blocks = 1,
             .seed = call});
      elements += count + call % 61;
    }
    const auto carried = odometer.look(carrier().slots);
    EXPECT_GE(carried.least, calls * 64 * carrier().slots);
    EXPECT_GE(carried.wraps, calls * 64 - 1);
    if (carrier().phases != 0)
      expect_sent(comm, carried.chunks, slot_bytes, bytes_sent(elements * sizeof(std::int64_t)));
  });
}

/// Floats whose sum depends on the order of its terms: every number of lanes gives the bits of a
/// sum in the order of ranks.
template <class T>
void Lanes::check_order_of_terms(Communicator& comm, Arena& arena, unsigned blocks,
                                 std::size_t count) const {
  const auto input = [&](int rank, std::size_t i) {
    return wide<T>(hash(count, static_cast<std::uint64_t>(rank), i), 12);
  };
  DeviceArray &send = arena.symmetric_send, &recv = arena.symmetric_recv;
  send.put<T>(count, [&](std::size_t i) { return input(comm.rank(), i); });
  recv.place(0, count * sizeof(T));
  recv.upload({});
  comm.all_reduce(send.device(), recv.device(), count, data_type_of<T>, ReduceOp::sum, {},
                  {.algorithm = name(), .blocks = blocks});
  recv.download({});
  comm.synchronize();
  for (std::size_t i = 0; i < count; ++i) {
    float sum = static_cast<float>(widen(input(0, i)));
    for (int rank = 1; rank < comm.size(); ++rank) sum += static_cast<float>(widen(input(rank, i)));
    const T wanted = narrow<T>(sum);
    if (std::memcmp(&wanted, recv.image() + i * sizeof(T), sizeof(T)) != 0)
      return report(
          comm,
          fmt::format(
              "{}, {} blocks, {} {}: element {} has other bits than a sum in the order of ranks",
              name(), blocks, count, name_of(data_type_of<T>), i));
  }
}

TEST_P(Lanes, AnyNumberOfThemGivesTheSameBits) {
  RankGroup::cached(ranks()).run([&](Communicator& comm, Arena& arena) {
    Odometer odometer(comm);
    for (const unsigned blocks : {1u, 2u, 3u, 4u, 7u, 16u, 64u, 128u})
      for (const std::size_t count :
           {1u, 127u, 4099u, 100'003u}) {  // primes, and none a multiple of a lane's packs
        if (under_tsan && (count > 5000 ? blocks != 7 : blocks % 3 != 1)) continue;
        odometer.look(carrier().slots);
        for (const bool symmetric : {false, true})
          check(comm, arena,
                {.algorithm = name(),
                 .type = DataType::f32,
                 .count = count,
                 .in_place = symmetric,
                 .symmetric = symmetric,
                 .blocks = blocks,
                 .seed = count});
        check(comm, arena,
              {.algorithm = name(),
               .type = DataType::u8,
               .count = count,
               .symmetric = true,
               .recv_offset = 1,
               .blocks = blocks});
        if (carrier().in_rank_order) {
          check_order_of_terms<float>(comm, arena, blocks, count);
          check_order_of_terms<bf16>(comm, arena, blocks, count);
        }
        const unsigned lanes = odometer.look(carrier().slots).lanes;
        EXPECT_LE(lanes, blocks);
        // The last lanes may get nothing. (A GPU's blocks have many threads, and a lane at least a
        // pack for each.)
        const bool all_used = count > 100'000 && target() == BackendKind::host;
        EXPECT_GE(4 * lanes, all_used ? 3 * blocks : 4);
      }
  });
}

class OtherLanes : public testing::TestWithParam<std::tuple<OtherCarrier, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, OtherLanes,
                         testing::Combine(testing::ValuesIn(other_carriers()),
                                          testing::Values(2, 3, 4)),
                         TestName());

/// As above: one block, small slots many times, counters that wrap; also where some ranks only
/// send, or only receive.
TEST_P(OtherLanes, SlotsGoRoundManyTimesInACall) {
  const auto& [carrier, ranks] = GetParam();
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", ranks == 2 ? "5M" : "10M");
  RankGroup group(ranks);
  group.run([&, subject = carrier.subject, slots = carrier.slots](Communicator& comm,
                                                                  Arena& arena) {
    Odometer odometer(comm);
    const std::size_t slot_bytes = odometer.access().channel_bytes() / std::max(slots, 1u);
    const auto n = static_cast<std::size_t>(comm.size());
    // A rooted collective moves n - 1 blocks, the others n - 1 per rank.
    const std::size_t blocks_sent = (n - 1) * (facts_of(subject.collective).rooted ? 1 : n);
    std::uint64_t seed = 0;
    for (const std::uint32_t start : {0u, 0u - 100u, 0x80000000u - 100u}) {
      comm.bootstrap().barrier();  // a rank that only sends is done before the others are
      odometer.access().make_old(start);
      odometer.look(std::max(slots, 1u));
      for (const bool in_place : {false, true}) {
        const auto parts = static_cast<unsigned>(parts_of(subject.collective, comm.size()));
        const std::size_t count = 140'001 / parts;
        check(comm, arena,
              subject.of({.type = DataType::i32,
                          .count = count,
                          .in_place = in_place,
                          .symmetric = true,
                          .root = static_cast<int>(seed % static_cast<unsigned>(comm.size())),
                          .blocks = 1,
                          .seed = ++seed}));
        const auto carried = odometer.look(std::max(slots, 1u));
        EXPECT_LE(carried.lanes, 1u);
        if (carried.lanes == 1) {
          EXPECT_GE(carried.least, 16 * slots) << "the message was to be longer";
        }
        if (slots != 0)
          expect_sent(comm, carried.chunks, slot_bytes, blocks_sent * count * sizeof(std::int32_t));
      }
    }
  });
}

}  // namespace
}  // namespace plait::test
