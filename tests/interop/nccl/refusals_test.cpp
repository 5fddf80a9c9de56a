// Bad arguments, and the functions that Plait does not have: a result and a sentence, and no crash.
#include <algorithm>
#include <functional>
#include <type_traits>

#include "interop/nccl/ranks.hpp"
#include "support/data.hpp"

namespace plait::nccl::test {
namespace {

TEST(Refusals, NoCommunicator) {
  std::int32_t value = 1;
  int number = 0;
  Result state = Result::success;
  const auto none = [](Result result) {
    return refused(result, Result::invalid_argument, "the NCCL communicator is NULL");
  };
  EXPECT_TRUE(none(sum_up(value, nullptr)));
  EXPECT_TRUE(none(ncclSend(&value, 1, int32, 0, nullptr, nullptr)));
  EXPECT_TRUE(none(ncclCommCount(nullptr, &number)));
  EXPECT_TRUE(none(ncclCommGetAsyncError(nullptr, &state)));
  OpNumber op = 0;
  EXPECT_TRUE(none(ncclRedOpCreatePreMulSum(&op, &value, float32, scalar_on_host, nullptr)));
  auto* const garbage = reinterpret_cast<CommHandle>(&value);
  EXPECT_INVALID(ncclCommDestroy(garbage), "is no NCCL comm");
}

/// Programs end what a split without a colour gave them.
TEST(Refusals, NoCommunicatorIsEndedAlready) {
  const OwnRanks own(1);
  for (const bool grouped : {false, true}) {
    if (grouped) {
      OK(ncclGroupStart());
    }
    EXPECT_OK(ncclCommFinalize(nullptr));
    EXPECT_OK(ncclCommDestroy(nullptr));
    EXPECT_OK(ncclCommAbort(nullptr));
    check_sum(own[0], 0, 1);
    if (grouped) {
      EXPECT_OK(ncclGroupEnd());
    }
  }
}

TEST(Refusals, NoPlaceForAnAnswer) {
  const OwnRanks own(1);
  const auto null = [](Result result) {
    return refused(result, Result::invalid_argument, "is NULL");
  };
  EXPECT_TRUE(null(ncclGetVersion(nullptr)));
  EXPECT_TRUE(null(ncclGetUniqueId(nullptr)));
  EXPECT_TRUE(null(ncclCommInitRank(nullptr, 1, new_id(), 0)));
  EXPECT_TRUE(null(ncclCommInitAll(nullptr, 1, nullptr)));
  EXPECT_TRUE(null(ncclCommSplit(own[0], 0, 0, nullptr, nullptr)));
  EXPECT_TRUE(null(ncclCommCount(own[0], nullptr)));
  EXPECT_TRUE(null(ncclCommUserRank(own[0], nullptr)));
  EXPECT_TRUE(null(ncclCommCuDevice(own[0], nullptr)));
  EXPECT_TRUE(null(ncclCommGetAsyncError(own[0], nullptr)));
  EXPECT_TRUE(null(ncclCommRegister(own[0], nullptr, 1, nullptr)));
  EXPECT_TRUE(null(ncclCommWindowRegister(own[0], nullptr, 1, nullptr, 0)));
  EXPECT_TRUE(null(ncclCommQueryProperties(own[0], nullptr)));
}

TEST(Refusals, NumbersOutOfRange) {
  const OwnRanks own(1);
  std::int32_t value = 1;
  const auto wrong = [](Result result, const char* sentence) {
    return refused(result, Result::invalid_argument, sentence);
  };
  const auto reduce = [&](TypeNumber type, OpNumber op) {
    return ncclAllReduce(&value, &value, 1, type, op, own[0], nullptr);
  };
  EXPECT_TRUE(wrong(reduce(-1, op_sum), "-1 is no data type"));
  EXPECT_TRUE(wrong(reduce(type_count, op_sum), "12 is no data type"));
  EXPECT_TRUE(wrong(reduce(int32, -1), "-1 is no operation"));
  EXPECT_TRUE(wrong(reduce(int32, op_last), "is no operation"));
  for (const int root : {-1, 1}) {
    EXPECT_TRUE(wrong(ncclBcast(&value, 1, int32, root, own[0], nullptr), "root"));
    EXPECT_TRUE(wrong(ncclSend(&value, 1, int32, root, own[0], nullptr), "peer"));
    EXPECT_TRUE(wrong(ncclRecv(&value, 1, int32, root, own[0], nullptr), "peer"));
  }
  CommHandle comm = nullptr;
  EXPECT_TRUE(wrong(ncclCommInitRank(&comm, 0, new_id(), 0), "0 ranks"));
  EXPECT_TRUE(wrong(ncclCommInitRank(&comm, 2, new_id(), 2), "rank 2"));
  EXPECT_TRUE(wrong(ncclCommInitRank(&comm, 2, new_id(), -1), "rank -1"));
  EXPECT_TRUE(wrong(ncclCommInitAll(&comm, 0, nullptr), "0 ranks"));
  EXPECT_TRUE(wrong(ncclCommInitAll(&comm, INT_MAX, nullptr), "at most 1024"));
  EXPECT_TRUE(wrong(ncclCommSplit(own[0], -2, 0, &comm, nullptr), "colour -2"));
  EXPECT_TRUE(wrong(ncclCommInitRankScalable(&comm, 1, 0, 0, nullptr, nullptr), "one id"));
  EXPECT_TRUE(
      wrong(ncclAllReduce(&value, &value, SIZE_MAX, int32, op_sum, own[0], nullptr), "overflows"));
  EXPECT_TRUE(
      wrong(ncclAllReduce(nullptr, &value, 1, int32, op_sum, own[0], nullptr), "send is null"));
  EXPECT_EQ(value, 1);
}

/// What one rank calls in the place of the third sum, and why that is refused.
struct Wrong {
  std::function<Result(std::vector<std::int32_t>& data, CommHandle comm)> call;
  std::string why;
};

/// The other rank is told, and no sum of the rank that goes on passes as another.
TEST(Refusals, EndTheOtherRanksCall) {
  const std::vector<Wrong> wrongs = {
      {[](auto& data, CommHandle comm) {
         return ncclAllReduce(nullptr, data.data(), data.size(), int32, op_sum, comm, nullptr);
       },
       "send is null"},
      {[](auto& data, CommHandle comm) {
         return ncclAllReduce(data.data(), data.data(), data.size(), type_count, op_sum, comm,
                              nullptr);
       },
       "is no data type"},
      {[](auto& data, CommHandle comm) {
         return ncclBroadcast(data.data(), data.data(), data.size(), int32, 9, comm, nullptr);
       },
       "root 9"},
      {[](auto& data, CommHandle comm) {
         static_cast<void>(ncclGroupStart());
         static_cast<void>(
             ncclAllReduce(data.data(), data.data(), data.size(), int32, op_sum, comm, nullptr));
         static_cast<void>(
             ncclAllReduce(data.data(), data.data(), data.size(), int32, op_last, comm, nullptr));
         return ncclGroupEnd();
       },
       "is no operation"}};
  for (const Wrong& wrong : wrongs) {
    on_ranks_that_end(2, [&](int rank, CommHandle comm) {
      const auto value = [](std::uint64_t call, int of, std::size_t i) {
        return static_cast<std::int32_t>(plait::test::hash(call, static_cast<unsigned>(of), i) >>
                                         40);
      };
      std::vector<std::int32_t> data(100);
      const auto sum = [&](std::uint64_t call) {
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(call, rank, i);
        const Result result =
            ncclAllReduce(data.data(), data.data(), data.size(), int32, op_sum, comm, nullptr);
        for (std::size_t i = 0; i < data.size() && result == Result::success; ++i)
          EXPECT_EQ(data[i], value(call, 0, i) + value(call, 1, i)) << "passed as a result";
        return result;
      };
      OK(sum(1));
      OK(sum(2));
      if (rank == 1) {
        EXPECT_INVALID(wrong.call(data, comm), wrong.why);
      }
      Result result = Result::success;
      for (std::uint64_t call = rank == 1 ? 4 : 3; call < 40 && result == Result::success; ++call)
        result = sum(call);
      EXPECT_TRUE(refused(result, Result::invalid_usage, "rank 1's call 3 was refused: "));
      EXPECT_TRUE(refused(result, Result::invalid_usage, wrong.why));
      EXPECT_OK(ncclCommAbort(comm));
    });
  }
}

template <class R>
void expect_refusal(const std::string& name, R (*function)()) {
  static_cast<void>(ncclGetVersion(nullptr));  // another error
  if constexpr (std::is_same_v<R, Result>) {
    EXPECT_EQ(function(), Result::invalid_usage) << name;
  } else {
    static_cast<void>(function());
  }
  EXPECT_EQ(last_error().rfind(name + ": Plait does not have this", 0), 0u) << last_error();
}

TEST(Refusals, FunctionsThatPlaitDoesNotHave) {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type can't have any
#define PLAIT_EXPECT_REFUSAL(RESULT, NAME) expect_refusal<RESULT>(#NAME, &NAME);
  PLAIT_NCCL_REFUSED_FUNCTIONS(PLAIT_EXPECT_REFUSAL)
#undef PLAIT_EXPECT_REFUSAL
}

TEST(Refusals, EveryResultHasAText) {
  std::vector<std::string> texts;
  for (int result = 0; result <= result_count; ++result) {
    texts.emplace_back(ncclGetErrorString(static_cast<Result>(result)));
    EXPECT_NE(texts.back(), "");
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()), texts.end());
}

TEST(Refusals, AThreadHearsOfItsOwnErrorFirst) {
  static_cast<void>(ncclGetVersion(nullptr));
  std::thread([] {
    EXPECT_NE(last_error().find("ncclGetVersion"), std::string::npos) << "the process's latest";
    static_cast<void>(ncclGetUniqueId(nullptr));
    EXPECT_NE(last_error().find("ncclGetUniqueId"), std::string::npos);
  }).join();
  EXPECT_NE(last_error().find("ncclGetVersion"), std::string::npos);
  int something = 0;
  auto* const garbage = reinterpret_cast<CommHandle>(&something);
  EXPECT_NE(std::string(ncclGetLastError(garbage)).find("ncclGetVersion"), std::string::npos);
}

TEST(Refusals, PropertiesKeepWithinTheirSize) {
  const OwnRanks own(2);
  struct Bigger {
    Properties known;
    unsigned char unknown[32];
  } given;
  std::fill_n(reinterpret_cast<unsigned char*>(&given), sizeof given, 0xee);
  given.known.size = sizeof(Properties) + 16;
  given.known.magic = magic_of_config;
  OK(ncclCommQueryProperties(own[1], &given.known));
  EXPECT_EQ(given.known.rank, 1);
  EXPECT_EQ(given.known.ranks, 2);
  EXPECT_EQ(given.unknown[15], 0);
  EXPECT_EQ(given.unknown[16], 0xee);
  given.known.magic = 0;
  EXPECT_INVALID(ncclCommQueryProperties(own[1], &given.known), "was not initialised");
}

}  // namespace
}  // namespace plait::nccl::test
