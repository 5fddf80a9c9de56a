// A unit of flagged data may have anything beside a message's elements. That is not added up,
// because adding it may trap. The kernels are compiled so that variables begin as a pattern, which
// no rank sends.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"
#include "algorithms/all_reduce/twoshot_ll/descriptor.hpp"
#include "algorithms/one_hop/direct_ll/descriptor.hpp"
#include "algorithms/rooted/relay_ll128/descriptor.hpp"
#include "support/ranks.hpp"
#include "zoo/padding/kernel.hpp"

namespace plait::test {
namespace {

template <class Original>
class Marking : public Original {
 public:
  template <class... Args>
  explicit Marking(std::string name, Args... args) : Original(args...), name_(std::move(name)) {}
  StaticName name() const final { return StaticName::lasting(name_); }
  std::string_view summary() const final { return "elements that know where they come from"; }

 private:
  std::string name_;
};
struct MarkedOneshot final : Marking<oneshot_ll::OneshotAlgorithm> {
  MarkedOneshot() : Marking("marked_oneshot", UnitKind::lines(), 64) {}
};
struct MarkedTwoshot final : Marking<twoshot_ll::TwoshotAlgorithm> {
  MarkedTwoshot() : Marking("marked_twoshot", UnitKind::lines(), 64) {}
};
struct MarkedDirect final : Marking<DirectAlgorithm> {
  explicit MarkedDirect(Collective collective)
      : Marking("marked_direct", collective, UnitKind::lines()) {}
};
struct MarkedRelay final : Marking<relay_ll128::RelayAlgorithm> {
  explicit MarkedRelay(Collective collective) : Marking("marked_relay", collective) {}
};
const AlgorithmRegistration<MarkedOneshot> oneshot;
const AlgorithmRegistration<MarkedTwoshot> twoshot;
const FamilyRegistration<MarkedDirect, adding_collectives> direct;
constexpr std::array relayed = {Collective::reduce};
const FamilyRegistration<MarkedRelay, relayed> relay;

PLAIT_FOR_RANKS(Padding, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(Padding, IsNotAddedUp) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    const auto n = static_cast<std::uint32_t>(comm.size());
    for (const std::size_t count : {1u, 14u, 15u, 16u, 150u, 1000u}) {  // 15 to a line
      std::vector<Marked> send(count * n), recv(count);
      for (std::size_t i = 0; i < send.size(); ++i)
        send[i] = {static_cast<std::uint32_t>(i) * (static_cast<unsigned>(rank) + 1),
                   Marked::right};
      const auto check = [&](const char* what, bool receives, std::size_t first) {
        comm.synchronize();
        for (std::size_t i = 0; receives && i < count; ++i) {
          ASSERT_EQ(recv[i].value, (first + i) * n * (n + 1) / 2) << what << ", element " << i;
          ASSERT_EQ(recv[i].mark, Marked::right) << what;
        }
        std::memset(recv.data(), 0, recv.size() * sizeof(Marked));
      };
      for (const char* name : {"marked_oneshot", "marked_twoshot"}) {
        comm.all_reduce(send.data(), recv.data(), count, DataType::f64, ReduceOp::sum, {},
                        {.algorithm = name});
        check(name, true, 0);
      }
      comm.reduce_scatter(send.data(), recv.data(), count, DataType::f64, ReduceOp::sum, {},
                          {.algorithm = "marked_direct"});
      check("reduce_scatter", true, static_cast<std::size_t>(rank) * count);
      for (const char* name : {"marked_direct", "marked_relay"}) {
        comm.reduce(send.data(), recv.data(), count, DataType::f64, ReduceOp::sum, 0, {},
                    {.algorithm = name});
        check(name, rank == 0, 0);
      }
    }
  });
  EXPECT_EQ(sums_of_padding.exchange(0), 0);
}

}  // namespace
}  // namespace plait::test
