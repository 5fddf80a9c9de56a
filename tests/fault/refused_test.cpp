// A call that one rank refuses, in a program that goes on: the others hear which call it was and
// why, and no result of a later call passes as theirs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
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
    arena_.send.put<std::int32_t>(count, [&](std::size_t i) {
      return element<std::int32_t>(call, comm_.rank(), i, ReduceOp::sum);
    });
    arena_.recv.place(0, 4 * count);
    arena_.recv.upload({});
  }
  template <class Wanted>
  void end(const Wanted& wanted) {
    arena_.recv.download({});
    comm_.synchronize();
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(arena_.recv.get<std::int32_t>(i), wanted(i))
          << "element " << i << " passed as a result";
  }

  Communicator& comm_;
  Arena& arena_;
};

using Usual = void (Calls::*)(std::uint64_t);
/// What one rank calls in the place of the usual call, with two places in ordinary memory.
struct Wrong {
  std::string name;
  std::function<void(Communicator&, std::byte* from, std::byte* to)> call;
  std::string why;
  Usual usual = &Calls::sum;
  friend std::string test_name(const Wrong& wrong) { return wrong.name; }
};

constexpr auto i32 = DataType::i32;
constexpr auto sum = ReduceOp::sum;
constexpr std::size_t apart = 8 * count;

std::vector<Wrong> wrongs() {
  const auto all_reduce = [](std::size_t at, std::size_t length, DataType type,
                             const CallOptions& options = {}) {
    return [=](Communicator& comm, std::byte* from, std::byte* to) {
      comm.all_reduce(from + at, to, length, type, sum, {}, options);
    };
  };
  const auto next = [](auto& comm) { return (comm.rank() + 1) % comm.size(); };
  const auto last = [](auto& comm) { return (comm.rank() + comm.size() - 1) % comm.size(); };
  return {
      {"null", [](auto& comm, auto*, auto* to) { comm.all_reduce(nullptr, to, count, i32, sum); },
       "send is null"},
      {"alignment", all_reduce(1, count, i32), "not aligned"},
      {"overlap",
       [](auto& comm, auto* from, auto*) { comm.all_reduce(from, from + 8, count, i32, sum); },
       "overlap"},
      {"overflow", all_reduce(0, SIZE_MAX / 2, i32), "overflows"},
      {"type", all_reduce(0, count, static_cast<DataType>(99)), "99 is no data type"},
      {"algorithm", all_reduce(0, count, i32, {.algorithm = "rign"}), "unknown algorithm"},
      {"unsupported", all_reduce(0, count, i32, {.algorithm = "dissemination"}), "serves"},
      {"root", [](auto& comm, auto* from, auto* to) { comm.broadcast(from, to, count, i32, 9); },
       "root 9"},
      {"lengths",
       [](auto& comm, auto* from, auto*) {
         const std::span data(reinterpret_cast<std::int32_t*>(from), count);
         comm.all_reduce(data, data.first(count - 1), sum);
       },
       "send has 100 elements, recv 99"},
      {"stream",  // of a call that is known; a GPU's runtime does not tell that a stream is gone
       [](auto& comm, auto* from, auto* to) {
         void* gone = comm.create_stream().native();
         comm.all_reduce(comm.backend_kind() == BackendKind::host ? from : nullptr, to, count, i32,
                         sum, StreamRef(static_cast<CUstream_st*>(gone)));
       },
       "all_reduce: rank"},
      {"parts",
       [](auto& comm, auto* from, auto* to) {
         const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()) + 1, count);
         comm.reduce_scatter_v(from, counts, to, i32, sum);
       },
       "counts, with"},
      {"function",
       [](auto& comm, auto* from, auto* to) {
         comm.all_reduce(from, to, count, {.function = nullptr, .element_bytes = 4});
       },
       "function"},
      {"group",
       [](auto& comm, auto* from, auto* to) {
         const Group group;
         comm.all_reduce(from, to, count, i32, sum);
         comm.all_reduce(nullptr, to + apart, count, i32, sum);
         comm.all_reduce(from, to + 2 * apart, count, i32, sum);
       },
       "group: call 2: all_reduce"},
      {"overlap_in_a_group",
       [](auto& comm, auto* from, auto* to) {
         const Group group;
         for (int i = 0; i < 2; ++i) comm.all_reduce(from, to, count, i32, sum);
       },
       "use the same memory"},
      {"exception_in_a_group",
       [](auto& comm, auto* from, auto* to) {
         const Group group;
         comm.all_reduce(from, to, count, i32, sum);
         throw Error(ErrorCode::invalid_argument, "the program's own");
       },
       "was left by an exception"},
      {"message",
       [=](auto& comm, auto*, auto* to) {
         comm.send_recv(nullptr, count, next(comm), to, count, last(comm), i32);
       },
       "send is null", &Calls::ring},
      {"message_in_a_group",
       [=](auto& comm, auto* from, auto*) {
         const Group group;
         comm.send(from, count, i32, next(comm));
         comm.recv(nullptr, count, i32, last(comm));
       },
       "recv is null", &Calls::ring},
      {"blocks",
       [](auto& comm, auto* from, auto* to) { comm.all_gather_v(from, count, to, {}, i32); },
       "0 recv counts", &Calls::gather},
  };
}

/// Calls it where the arena's ordinary memory begins, aligned.
std::optional<Error> refusal_of(const Wrong& wrong, Communicator& comm, Arena& arena) {
  for (DeviceArray* array : {&arena.send, &arena.recv}) array->place(0, 4 * count);
  return error_of([&] {
    wrong.call(comm, static_cast<std::byte*>(arena.send.device()),
               static_cast<std::byte*>(arena.recv.device()));
  });
}

class Refused : public testing::TestWithParam<std::tuple<Wrong, int>> {};
INSTANTIATE_TEST_SUITE_P(All, Refused,
                         testing::Combine(testing::ValuesIn(wrongs()), testing::Values(2, 3)),
                         TestName());

TEST_P(Refused, EndsTheOthersCallOfThatNumber) {
  const Wrong& wrong = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const bool message = wrong.usual != &Calls::sum;
  run_ranks(ranks, patient(), [&, odd = ranks - 1](Communicator& comm, int rank) {
    Arena arena(comm);
    Calls calls(comm, arena);
    for (std::uint64_t call = 1; call <= before; ++call) (calls.*wrong.usual)(call);
    comm.bootstrap().barrier();
    if (rank == odd) {
      const auto refused = refusal_of(wrong, comm, arena);
      ASSERT_TRUE(refused.has_value());
      EXPECT_EQ(refused->code() == ErrorCode::mismatch, false) << refused->what();
    }
    std::optional<Error> error;
    for (std::uint64_t call = rank == odd ? 2 : 1; call < 20 && !error; ++call)
      error = error_of([&] { (calls.*wrong.usual)(before + call); });
    if (!error) error = heard(comm);
    expect_error(error, ErrorCode::mismatch,
                 AllOf(StartsWith(fmt::format("rank {}'s {} {}", odd, message ? "message" : "call",
                                              before + 1)),
                       HasSubstr("was refused: "), HasSubstr(wrong.why),
                       HasSubstr("the communicator is broken")));
  });
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
      const auto refused = refusal_of(all[index], comm, arena);
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
