// Reductions of own elements by own operations (backends/device/own_reducer.hpp), by kernels and
// descriptors of the library.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"
#include "algorithms/all_reduce/stream/descriptor.hpp"
#include "algorithms/all_reduce/twoshot_ll/descriptor.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/own_reduction/kernel.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

template <class Original>
class Own : public Original {
 public:
  template <class... Args>
  explicit Own(std::string name, Args... args) : Original(args...), name_(std::move(name)) {}
  StaticName name() const final { return StaticName::lasting(name_); }
  std::string_view summary() const final { return "own elements"; }
  double estimate(const Call&, const Topology&) const final {
    return std::numeric_limits<double>::infinity();
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const final {
    if (call.type != DataType::f64 && call.type != DataType::bf16)
      return Support::no("only own elements");
    return Original::supports_call(call, topology);
  }

 private:
  std::string name_;
};
struct OwnOneshot final : Own<oneshot_ll::OneshotAlgorithm> {
  OwnOneshot() : Own("own_oneshot", UnitKind::packets(), 64) {}
};
struct OwnTwoshot final : Own<twoshot_ll::TwoshotAlgorithm> {
  OwnTwoshot() : Own("own_twoshot", UnitKind::packets(), 64) {}
};
struct OwnStream final : Own<stream::StreamAlgorithm> {
  OwnStream() : Own("own_stream") {}
};
const AlgorithmRegistration<OwnOneshot> oneshot;
const AlgorithmRegistration<OwnTwoshot> twoshot;
const AlgorithmRegistration<OwnStream> streamed;

template <class T>
T element(int rank, std::size_t i) {
  const std::uint64_t h = hash(7, static_cast<std::uint64_t>(rank), i);
  if constexpr (std::is_same_v<T, Complex>)
    return {static_cast<std::uint32_t>(h % Product::prime),
            static_cast<std::uint32_t>((h >> 32) % Product::prime)};
  else return {static_cast<std::uint8_t>(h % 251), static_cast<std::uint8_t>(h >> 8)};
}

template <class T, class Operation>
void check(Communicator& comm, Arena& arena, const std::string& algorithm, std::size_t count,
           bool in_place) {
  arena.send.put<T>(
      count, [&](std::size_t i) { return element<T>(comm.rank(), i); }, {}, 1);
  arena.recv.place(0, count * sizeof(T));
  arena.recv.upload({});
  DeviceArray& result = in_place ? arena.send : arena.recv;
  comm.all_reduce(arena.send.device(), result.device(), count, data_type_of<T>, ReduceOp::sum, {},
                  {.algorithm = algorithm});
  result.download({});
  comm.synchronize();
  ASSERT_EQ(result.damage(), "");
  for (std::size_t i = 0; i < count; ++i) {
    T wanted = element<T>(0, i);
    for (int rank = 1; rank < comm.size(); ++rank)
      wanted = Operation()(wanted, element<T>(rank, i));
    ASSERT_TRUE(result.get<T>(i) == wanted)
        << algorithm << ", rank " << comm.rank() << ", element " << i << " of " << count;
  }
}

class OwnReductions : public testing::TestWithParam<std::tuple<std::string, int>> {};
INSTANTIATE_TEST_SUITE_P(All, OwnReductions,
                         testing::Combine(testing::Values("own_oneshot", "own_twoshot",
                                                          "own_stream"),
                                          testing::Values(1, 2, 3, 4)),
                         TestName());

TEST_P(OwnReductions, AreRight) {
  const std::string& name = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  RankGroup::cached(ranks).run([&](Communicator& comm, Arena& arena) {
    for (const std::size_t count : {1, 2, 3, 7, 64, 1001, 30'000})
      for (const bool in_place : {false, true}) {
        check<Complex, Product>(comm, arena, name, count, in_place);
        check<SumAndMost, Both>(comm, arena, name, count, in_place);
      }
  });
}

/// Only a call that names it gets one.
TEST_P(OwnReductions, AreNeverChosen) {
  const std::string& name = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  RankGroup::cached(ranks).run([&](Communicator& comm, Arena& arena) {
    for (const std::size_t count : {1, 1000, 1'000'000})
      for (const DataType type : {DataType::f64, DataType::bf16}) {
        const Call call{.type = type, .count = count};
        EXPECT_NE(comm.chosen(call), name);
        EXPECT_THAT(comm.explain(call), HasSubstr(fmt::format("{:<20} only by its name", name)));
      }
    arena.send.place(0, sizeof(float));
    arena.recv.place(0, sizeof(float));
    expect_throws(
        ErrorCode::unsupported,
        [&] {
          comm.all_reduce(arena.send.device(), arena.recv.device(), 1, DataType::f32, ReduceOp::sum,
                          {}, {.algorithm = name});
        },
        "only own elements");
  });
}

}  // namespace
}  // namespace plait::test
