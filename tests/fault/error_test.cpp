// Calls that are refused for what they ask for: one clear error, everywhere the same, before
// anything is enqueued; and a communicator that works afterwards.
#include "plait/error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "fault/refused.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

INSTANTIATE_TEST_SUITE_P(All, Errors, testing::Values(1, 2, 3), TestName());

TEST_P(Errors, NullPointersWithoutElementsAreFine) {
  run([](Communicator& comm, Arena& arena) {
    EXPECT_NO_THROW(comm.all_reduce(nullptr, nullptr, 0, DataType::f32, ReduceOp::sum));
    for (const std::string& algorithm : all_reduce_algorithms())
      EXPECT_NO_THROW(comm.all_reduce(arena.symmetric_send.device(), arena.symmetric_recv.device(),
                                      0, DataType::f32, ReduceOp::sum, {},
                                      {.algorithm = algorithm}))
          << algorithm;
    comm.synchronize();
    check(comm, arena, {.algorithm = {}, .count = 5});
  });
}

TEST_P(Errors, CopiesFromOrToNowhere) {
  expect_refused(
      ErrorCode::invalid_argument,
      AllOf(HasSubstr("copy: rank"), HasSubstr("to is null, with 10 bytes")),
      [](Communicator& comm, Arena& arena) { comm.copy(nullptr, arena.send.device(), 10); });
  expect_refused(
      ErrorCode::invalid_argument, HasSubstr("from is null, with 10 bytes"),
      [](Communicator& comm, Arena& arena) { comm.copy(arena.send.device(), nullptr, 10); });
  run([](Communicator& comm, Arena&) { EXPECT_NO_THROW(comm.copy(nullptr, nullptr, 0)); });
  for (const bool to : {true, false})
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(HasSubstr("copy: rank"), HasSubstr(to ? ": to = " : ": from = "),
                         HasSubstr("offset 8"), HasSubstr("no room for 1000 bytes")),
                   [to](Communicator& comm, Arena& arena) {
                     const Buffer<std::byte> buffer = comm.allocate<std::byte>(1000);
                     if (to) comm.copy(buffer.data() + 8, arena.send.device(), 1000);
                     else comm.copy(arena.send.device(), buffer.data() + 8, 1000);
                   });
}

TEST_P(Errors, AnAlgorithmOfAnotherCollective) {
  for (const std::size_t elements : {count, std::size_t{0}})
    expect_refused(ErrorCode::unsupported,
                   AllOf(HasSubstr("\"ring\" serves"), HasSubstr("broadcast, which has"),
                         HasSubstr("direct_ll")),
                   [&](Communicator& comm, Arena& arena) {
                     comm.broadcast(arena.send.device(), arena.recv.device(), elements,
                                    DataType::f32, 0, {}, {.algorithm = "ring"});
                   });
}

/// `explain` checks the call in question as it checks a call that is made.
TEST_P(Errors, ExplainingWhatIsNoCall) {
  struct Wrong {
    plait::Call call;
    const char* why;
    CallOptions options = {};
  };
  for (const Wrong& wrong :
       {Wrong{{.collective = static_cast<Collective>(55), .count = 10}, "55 is no collective"},
        {{.type = static_cast<DataType>(55), .count = 10}, "55 is no data type"},
        {{.op = static_cast<ReduceOp>(55), .count = 10}, "55 is no operation"},
        {{.collective = Collective::broadcast, .count = 10, .root = 99},
         "root 99 is none of the ranks"},
        {{.collective = Collective::reduce, .count = 10, .root = -1},
         "root -1 is none of the ranks"},
        {{.count = std::numeric_limits<std::size_t>::max()}, "overflows"},
        {{.collective = Collective::send_recv, .count = std::size_t{1} << 62}, "overflows"},
        {{.count = 10}, "symmetric", {.symmetric = true}},
        {{.op = ReduceOp::premul_sum, .count = 10, .scale = 2},
         "scale 2 of the call and 3 of the options",
         {.scale = 3}}})
    for (const bool name : {true, false})
      expect_refused(ErrorCode::invalid_argument,
                     AllOf(HasSubstr(wrong.why), names_a_rank(), Not(HasSubstr("\n"))),
                     [&](Communicator& comm, Arena&) {
                       if (name) comm.chosen(wrong.call, wrong.options);
                       else comm.explain(wrong.call, wrong.options);
                     });
  run([](Communicator& comm, Arena&) {  // what a collective does not have is not looked at
    EXPECT_NO_THROW(comm.explain({.collective = Collective::all_gather,
                                  .op = ReduceOp::premul_sum,
                                  .count = 10,
                                  .root = 99}));
    EXPECT_NO_THROW(
        comm.explain({.collective = Collective::barrier, .type = static_cast<DataType>(55)}));
    EXPECT_NO_THROW(comm.explain({.collective = Collective::all_gather, .count = 10, .scale = 2},
                                 {.scale = 3}));
  });
}

TEST_P(Errors, TwoScales) {
  expect_refused(ErrorCode::invalid_argument,
                 AllOf(HasSubstr("scale 2 of the call and 3 of the options"), names_a_rank()),
                 [](Communicator& comm, Arena& arena) {
                   comm.enqueue({.op = ReduceOp::premul_sum, .count = count, .scale = 2},
                                arena.send.device(), arena.recv.device(), {}, {.scale = 3});
                 });
}

TEST_P(Errors, BuffersSideBySideAreFine) {
  run([](Communicator& comm, Arena& arena) {
    arena.send.place(0, 2 * count * sizeof(float));
    arena.send.upload({});
    auto* base = static_cast<float*>(arena.send.device());
    EXPECT_NO_THROW(comm.all_reduce(base, base + count, count, DataType::f32, ReduceOp::sum));
    comm.synchronize();
  });
}

/// If only the root has a buffer, the others may pass anything.
TEST_P(Errors, SpansThatAreNotLookedAt) {
  run([](Communicator& comm, Arena& arena) {
    const auto n = static_cast<std::size_t>(comm.size());
    const int root = comm.size() - 1;
    const bool is_root = comm.rank() == root;
    for (DeviceArray* array : {&arena.send, &arena.recv}) array->place(0, 4 * n * sizeof(float));
    auto* send = static_cast<float*>(arena.send.device());
    auto* recv = static_cast<float*>(arena.recv.device());
    const auto anything = [&](float* data, std::size_t wanted) {
      return std::span(data, is_root ? wanted : 3);
    };
    EXPECT_NO_THROW(comm.broadcast(anything(send, 4), std::span(recv, 4), root));
    EXPECT_NO_THROW(comm.reduce(std::span(send, 4), anything(recv, 4), ReduceOp::sum, root));
    EXPECT_NO_THROW(comm.gather(std::span(send, 4), anything(recv, 4 * n), root));
    EXPECT_NO_THROW(comm.scatter(anything(send, 4 * n), std::span(recv, 4), root));
    comm.synchronize();
    // The others' call is refused, too, so all go on.
    EXPECT_THROW(comm.gather(std::span(send, 4), std::span<float>(), is_root ? root : comm.size()),
                 Error);
  });
}

/// `explain` shows the algorithm that would run.
TEST_P(Errors, LaunchShapesAreCut) {
  run([](Communicator& comm, Arena&) {
    const auto told = [&](Collective collective, const char* algorithm, std::size_t bytes,
                          unsigned blocks) {
      plait::Call call{.collective = collective, .type = DataType::u8, .count = bytes};
      call.symmetric = true;
      CallOptions options{.algorithm = algorithm, .blocks = blocks};
      options.symmetric = collective == Collective::send_recv;
      return comm.explain(call, options);
    };
    EXPECT_THAT(told(Collective::broadcast, "direct_put", 1000, 5000),
                HasSubstr("takes direct_put with 256 blocks"));
    if (backend_of(comm).info().facts.peer_access) {
      EXPECT_THAT(told(Collective::broadcast, "direct_copy", 1000, 5000),
                  HasSubstr("takes direct_copy with 1 blocks"));
    }
    // Loops over packs count with 32 bits there.
    EXPECT_THAT(told(Collective::broadcast, "direct_put", std::size_t{70} << 30, 1),
                HasSubstr("takes direct_put with 5 blocks"));
    EXPECT_THAT(told(Collective::send_recv, "pairwise_put", std::size_t{70} << 30, 1),
                HasSubstr("takes pairwise_put with 5 blocks"));
  });
}

}  // namespace
}  // namespace plait::test
