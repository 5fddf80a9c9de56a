// Wrong arguments of each collective, by its own function: refused before anything is enqueued.
#include "support/mistakes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "support/by_name.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Mistakes : public testing::TestWithParam<std::tuple<int, Collective>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(std::get<0>(GetParam())); }

  /// Runs `body` on all ranks, with a call in which every rank would be the root. Nothing of what
  /// `body` tries may be enqueued.
  static void on_each_rank(const std::function<void(Communicator&, const Call&, Arena&)>& body) {
    const auto [ranks, collective] = GetParam();
    RankGroup::cached(ranks).run(
        [&, ranks = ranks, collective = collective](Communicator& comm, Arena& arena) {
          const Call call{.collective = collective,
                          .type = DataType::f64,
                          .count = 4,
                          .root = comm.rank(),
                          .parts = parts_of(collective, ranks)};
          for (DeviceArray* array : {&arena.send, &arena.recv}) {
            array->place(0, call.bytes());
            array->upload({});
          }
          comm.synchronize();
          const std::uint64_t calls = comm.statistics().calls;
          body(comm, call, arena);
          EXPECT_EQ(comm.statistics().calls, calls) << "something was enqueued";
          arena.recv.download({});
          comm.synchronize();
          EXPECT_TRUE(arena.recv.untouched());
          EXPECT_FALSE(comm.async_error().has_value());
          check(comm, arena, {.collective = collective, .algorithm = {}, .count = 321});
        });
  }
};
INSTANTIATE_TEST_SUITE_P(All, Mistakes,
                         testing::Combine(testing::Values(1, 2, 3), testing::ValuesIn(collectives)),
                         [](const auto& test) {
                           return fmt::format("n{}_{}", std::get<0>(test.param),
                                              name_of(std::get<1>(test.param)));
                         });

TEST_P(Mistakes, AreRefused) {
  on_each_rank([](Communicator& comm, const Call& call, Arena& arena) {
    for (const Mistake& m :
         mistakes(call, arena.send.device(), arena.recv.device(), comm.rank(), comm.size())) {
      SCOPED_TRACE(m.why);
      expect_error(
          error_of([&] { enqueue_by_name(comm, m.call, m.send, m.recv, StreamRef(), m.options); }),
          m.code,
          AllOf(StartsWith(refused_by(call.collective) + std::to_string(comm.rank()) + ": "),
                HasSubstr(m.why)));
    }
  });
}

TEST_P(Mistakes, OfSpansAreRefused) {
  on_each_rank([](Communicator& comm, const Call& call, Arena& arena) {
    auto* const send = static_cast<double*>(arena.send.device());
    auto* const recv = static_cast<double*>(arena.recv.device());
    const std::size_t sent = send_bytes(call) / sizeof(double),
                      received = recv_bytes(call) / sizeof(double);
    for (const auto& [from, to] : {std::pair(sent + 1, received),
                                   {sent, received + 1},
                                   {sent - 1, received},
                                   {sent, received - 1},
                                   {sent, 0}}) {
      const std::string why = fmt::format("send has {} elements, recv {}", from, to);
      const auto error = error_of([&, from = from, to = to] {
        enqueue_buffers_by_name(comm, call, std::span<const double>(send, from),
                                std::span(recv, to), StreamRef());
      });
      expect_error(error, ErrorCode::invalid_argument,
                   AllOf(StartsWith(refused_by(call.collective)), HasSubstr(why)));
    }
  });
}

}  // namespace
}  // namespace plait::test
