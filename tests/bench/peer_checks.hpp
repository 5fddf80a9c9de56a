// Checks of a peer of plait-bench: every element of every result, and the calls that it refuses.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "bench/verify.hpp"
#include "plait/mpi.hpp"
#include "support/covering.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::bench {

inline Communicator communicator(BackendKind target) {
  CommunicatorOptions options;
  options.backend = target;
  options.timeout = test::patience;
  return make_communicator(MPI_COMM_WORLD, options);
}

inline constexpr std::size_t message_bytes = 600;

inline constexpr std::array collectives = {
    Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
    Collective::broadcast,  Collective::reduce,         Collective::all_to_all,
    Collective::gather,     Collective::scatter,        Collective::send_recv,
    Collective::scan,       Collective::exscan};

/// The barrier alone.
inline Task barrier_task(Communicator& comm, const Arena& arena) {
  return make_task({.collective = Collective::barrier, .type = DataType::u8}, message_bytes, false,
                   false, arena, comm.rank(), comm.size());
}

/// Calls of every collective but the barrier: all pairs of types, of the operations that they have,
/// of place and of roots.
inline void for_each_task(Communicator& comm, const Contender& contender,
                          const std::function<void(const Task&)>& body) {
  for (const Collective collective : collectives) {
    const CollectiveFacts facts = facts_of(collective);
    const auto ranks = static_cast<std::size_t>(comm.size());
    const auto call = [&](const test::Levels& levels) {
      return Call{.collective = collective,
                  .type = static_cast<DataType>(levels[0]),
                  .op = static_cast<ReduceOp>(levels[1]),
                  .root = static_cast<int>(levels[3])};
    };
    for (const test::Levels& levels :
         test::covering({data_type_count, facts.reduces ? reduce_op_count : 1u,
                         has_in_place(collective) ? 2u : 1u, facts.rooted ? ranks : 1u},
                        static_cast<unsigned>(collective), [&](const test::Levels& l) {
                          return !facts.reduces || is_reduced(call(l).type, call(l).op);
                        })) {
      const bool in_place = levels[2] == 1;
      const Task task =
          contender.task_for(call(levels), message_bytes, in_place, comm.rank(), comm.size());
      SCOPED_TRACE(fmt::format("{} of {} by {}, root {}, {} place", name_of(collective),
                               name_of(task.call.type), name_of(task.call.op), task.call.root,
                               in_place ? "in" : "out of"));
      body(task);
    }
  }
}

/// Tries the calls that `tried` picks. Results are right where `serves` says that the contender can
/// serve the call, and the other calls are refused.
inline void check_all(
    Communicator& comm, Contender& contender, const std::function<bool(const Task&)>& serves,
    const std::function<bool(const Task&)>& tried = [](const Task&) { return true; }) {
  const Stream stream = comm.create_stream();
  std::uint32_t seed = 0;
  int served = 0, refused = 0;
  for_each_task(comm, contender, [&](const Task& task) {
    if (!tried(task)) return;
    if (serves(task)) {
      ++served;
      EXPECT_EQ(count_wrong(comm, stream.native(), contender, task, ++seed), 0U);
    } else {
      ++refused;
      test::expect_error(
          test::error_of([&] { contender.enqueue(task, stream.native()); }), ErrorCode::unsupported,
          testing::AllOf(testing::StartsWith(contender.name() + ": no "),
                         testing::AnyOf(testing::HasSubstr(std::string(name_of(task.call.op))),
                                        testing::EndsWith("no all_to_all in place"))));
    }
  });
  EXPECT_GT(served, 100);
  EXPECT_GT(refused, 10);
}

}  // namespace plait::bench
