// A call that one rank refuses, in a program that goes on: the others hear which call it was and
// why, and no result of a later call passes as theirs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/data.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t count = 100;
constexpr std::uint64_t before = 4;  // calls before the one that is refused

/// A call of each rank, with other numbers in each. A result that passes must be right.
class Calls {
 public:
  Calls(Communicator& comm, Arena& arena) : comm_(comm), arena_(arena) {}

  void sum(std::uint64_t call) {
    begin(call);
    comm_.all_reduce(from(), to(), count, DataType::i32, ReduceOp::sum);
    end([&](std::size_t i) {
      return expected<std::int32_t>(call, comm_.size(), i, ReduceOp::sum, 1);
    });
  }
  void ring(std::uint64_t call) {
    const int next = (comm_.rank() + 1) % comm_.size(),
              last = (comm_.rank() + comm_.size() - 1) % comm_.size();
    begin(call);
    comm_.send_recv(from(), count, next, to(), count, last, DataType::i32);
    end([&](std::size_t i) { return element<std::int32_t>(call, last, i, ReduceOp::sum); });
  }
  /// Of the last rank's block: the others send nothing else.
  void gather(std::uint64_t call) {
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const std::vector<std::size_t> places(ranks, 0);
    std::vector<std::size_t> counts(ranks, 0);
    counts.back() = count;
    const bool sends = comm_.rank() == comm_.size() - 1;
    begin(call);
    comm_.all_gather_v(from(), sends ? count : 0, to(), {counts, places}, DataType::i32);
    end([&](std::size_t i) {
      return element<std::int32_t>(call, comm_.size() - 1, i, ReduceOp::sum);
    });
  }

 private:
  void* from() const { return arena_.send.device(); }
  void* to() const { return arena_.recv.device(); }
  void begin(std::uint64_t call) {
    arena_.send.place(0, 4 * count);
    arena_.recv.place(0, 4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = element<std::int32_t>(call, comm_.rank(), i, ReduceOp::sum);
      std::memcpy(arena_.send.image() + 4 * i, &value, 4);
    }
    arena_.send.upload({});
    arena_.recv.upload({});
  }
  template <class Wanted>
  void end(const Wanted& wanted) {
    arena_.recv.download({});
    comm_.synchronize();
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t value = 0;
      std::memcpy(&value, arena_.recv.image() + 4 * i, 4);
      ASSERT_EQ(value, wanted(i)) << "element " << i << " passed as a result";
    }
  }

  Communicator& comm_;
  Arena& arena_;
};

using Usual = void (Calls::*)(std::uint64_t);
/// What one rank calls in the place of the usual call.
struct Wrong {
  std::string name;
  std::function<void(Communicator&, Arena&)> call;
  std::string why;
  Usual usual = &Calls::sum;
};

std::vector<Wrong> wrongs() {
  constexpr auto i32 = DataType::i32;
  constexpr auto sum = ReduceOp::sum;
  const auto all_reduce = [](std::size_t from, std::size_t to, std::size_t length, DataType type,
                             const CallOptions& options = {}) {
    return [=](Communicator& comm, Arena& arena) {
      comm.all_reduce(static_cast<std::byte*>(arena.send.device()) + from,
                      static_cast<std::byte*>(arena.send.device()) + to, length, type, sum, {},
                      options);
    };
  };
  const std::size_t apart = 8 * count;
  return {
      {"null",
       [](Communicator& comm, Arena& arena) {
         comm.all_reduce(nullptr, arena.recv.device(), count, i32, sum);
       },
       "send is null"},
      {"alignment", all_reduce(1, apart, count, i32), "not aligned"},
      {"overlap", all_reduce(0, 8, count, i32), "overlap"},
      {"overflow", all_reduce(0, apart, SIZE_MAX / 2, i32), "overflows"},
      {"type", all_reduce(0, apart, count, static_cast<DataType>(99)), "99 is no data type"},
      {"algorithm", all_reduce(0, apart, count, i32, {.algorithm = "rign"}), "unknown algorithm"},
      {"unsupported", all_reduce(0, apart, count, i32, {.algorithm = "dissemination"}), "serves"},
      {"root",
       [](Communicator& comm, Arena& arena) {
         comm.broadcast(arena.send.device(), arena.recv.device(), count, i32, 9);
       },
       "root 9"},
      {"lengths",
       [](Communicator& comm, Arena& arena) {
         const std::span<std::int32_t> data(static_cast<std::int32_t*>(arena.send.device()), count);
         comm.all_reduce(data, data.first(count - 1), sum);
       },
       "send has 100 elements, recv 99"},
      {"stream",  // of a call that is known
       [](Communicator& comm, Arena& arena) {
         void* gone = comm.create_stream().native();
         // A GPU's runtime does not tell that a stream is gone.
         const void* from =
             comm.backend_kind() == BackendKind::host ? arena.send.device() : nullptr;
         comm.all_reduce(from, arena.recv.device(), count, i32, sum,
                         StreamRef(static_cast<CUstream_st*>(gone)));
       },
       "all_reduce: rank"},
      {"parts",
       [](Communicator& comm, Arena& arena) {
         const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()) + 1, count);
         comm.reduce_scatter_v(arena.send.device(), counts, arena.recv.device(), i32, sum);
       },
       "counts, with"},
      {"function",
       [](Communicator& comm, Arena& arena) {
         comm.all_reduce(arena.send.device(), arena.recv.device(), count,
                         {.function = nullptr, .element_bytes = 4});
       },
       "function"},
      {"group",
       [](Communicator& comm, Arena& arena) {
         group_start();
         comm.all_reduce(arena.send.device(), arena.recv.device(), count, i32, sum);
         comm.all_reduce(nullptr, arena.symmetric_recv.device(), count, i32, sum);
         comm.all_reduce(arena.send.device(), arena.symmetric_send.device(), count, i32, sum);
         group_end();
       },
       "group: call 2: all_reduce"},
      {"overlap_in_a_group",
       [](Communicator& comm, Arena& arena) {
         group_start();
         comm.all_reduce(arena.send.device(), arena.recv.device(), count, i32, sum);
         comm.all_reduce(arena.send.device(), arena.recv.device(), count, i32, sum);
         group_end();
       },
       "use the same memory"},
      {"exception_in_a_group",
       [](Communicator& comm, Arena& arena) {
         const Group group;
         comm.all_reduce(arena.send.device(), arena.recv.device(), count, i32, sum);
         throw Error(ErrorCode::invalid_argument, "the program's own");
       },
       "was left by an exception"},
      {"message",
       [](Communicator& comm, Arena& arena) {
         const int next = (comm.rank() + 1) % comm.size(),
                   last = (comm.rank() + comm.size() - 1) % comm.size();
         comm.send_recv(nullptr, count, next, arena.recv.device(), count, last, i32);
       },
       "send is null", &Calls::ring},
      {"message_in_a_group",
       [](Communicator& comm, Arena& arena) {
         group_start();
         comm.send(arena.send.device(), count, i32, (comm.rank() + 1) % comm.size());
         comm.recv(nullptr, count, i32, (comm.rank() + comm.size() - 1) % comm.size());
         group_end();
       },
       "recv is null", &Calls::ring},
      {"blocks",
       [](Communicator& comm, Arena& arena) {
         comm.all_gather_v(arena.send.device(), count, arena.recv.device(), {}, i32);
       },
       "0 recv counts", &Calls::gather},
  };
}

class Refused : public testing::TestWithParam<std::tuple<std::size_t, int>> {};
INSTANTIATE_TEST_SUITE_P(All, Refused,
                         testing::Combine(testing::Range<std::size_t>(0, wrongs().size()),
                                          testing::Values(2, 3)),
                         [](const auto& test) {
                           return fmt::format("{}_n{}", wrongs()[std::get<0>(test.param)].name,
                                              std::get<1>(test.param));
                         });

TEST_P(Refused, EndsTheOthersCallOfThatNumber) {
  const auto& [index, ranks] = GetParam();
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const Wrong wrong = wrongs()[index];
  const bool message = wrong.usual != &Calls::sum;
  run_ranks(
      ranks,
      [&, odd = ranks - 1](Communicator& comm, int rank) {
        Arena arena(comm);
        Calls calls(comm, arena);
        for (std::uint64_t call = 1; call <= before; ++call) (calls.*wrong.usual)(call);
        comm.bootstrap().barrier();
        if (rank == odd) {
          const auto refused = error_of([&] { wrong.call(comm, arena); });
          ASSERT_TRUE(refused.has_value());
          EXPECT_EQ(refused->code() == ErrorCode::mismatch, false) << refused->what();
        }
        std::optional<Error> error;
        for (std::uint64_t call = rank == odd ? 2 : 1; call < 20 && !error; ++call)
          error = error_of([&] { (calls.*wrong.usual)(before + call); });
        if (!error) error = heard(comm);
        expect_error(error, ErrorCode::mismatch,
                     AllOf(StartsWith(fmt::format("rank {}'s {} {}", odd,
                                                  message ? "message" : "call", before + 1)),
                           HasSubstr("was refused: "), HasSubstr(wrong.why),
                           HasSubstr("the communicator is broken")));
      },
      patient());
}

/// Ranks whose calls of one number are all refused, each for another reason, don't disagree.
TEST(RefusedByAll, GoesOn) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(3, [](Communicator& comm, int rank) {
    Arena arena(comm);
    Calls calls(comm, arena);
    const std::vector<Wrong> all = wrongs();
    for (std::uint64_t call = 1; call < 60; ++call) {
      const std::size_t index = (call + static_cast<std::size_t>(rank)) % 9;
      const auto refused = error_of([&] { all[index].call(comm, arena); });
      ASSERT_TRUE(refused.has_value()) << all[index].name;
      calls.sum(call);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    comm.bootstrap().barrier();
    EXPECT_FALSE(comm.async_error().has_value());
  });
}

/// Empty calls have no number on any rank, whether they are refused or not.
TEST(RefusedByAll, HasNoNumberWithoutElements) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, [](Communicator& comm, int rank) {
    Arena arena(comm);
    Calls calls(comm, arena);
    const auto refused = error_of([&] {
      comm.all_reduce(nullptr, nullptr, 0, DataType::i32, ReduceOp::sum, {},
                      {.algorithm = rank == 0 ? "rign" : ""});
    });
    EXPECT_EQ(refused.has_value(), rank == 0);
    calls.sum(1);
    comm.bootstrap().barrier();
    EXPECT_FALSE(comm.async_error().has_value());
  });
}

}  // namespace
}  // namespace plait::test
