// Calls of a group that use the same memory without an order.
#include "communicator/groups/group_check.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

/// Calls of members of two communicators, in memory that is never touched: addresses from 1 to 40,
/// few enough that many overlap.
class RandomGroup {
 public:
  explicit RandomGroup(std::mt19937& random) : random_(random) {
    const auto members = static_cast<int>(1 + below(3));
    const std::size_t most = members == 1 ? 5 : 3;
    for (int rank = 0; rank < members; ++rank) {
      std::vector<GroupedCall> calls;
      for (std::size_t i = below(most + 1); i > 0; --i)
        calls.push_back({call(rank), nullptr, ++calls_});
      made_.push_back(std::move(calls));
    }
    for (int rank = 0; rank < members; ++rank)
      members_.push_back({made_[static_cast<std::size_t>(rank)], rank, communicators_[below(2)]});
  }

  const std::vector<MemberCalls>& members() const { return members_; }

  /// Whether the parts of two members have no order and use the same memory, which one of them
  /// writes: the definition.
  static bool conflict(const MemberCalls& a, std::size_t i, const MemberCalls& b, std::size_t j) {
    if (a.communicator == b.communicator && barriers(a, i) != barriers(b, j)) return false;
    for (const Use& x : uses(a.calls[i].call))
      for (const Use& y : uses(b.calls[j].call))
        if ((x.writes || y.writes) && x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes)
          return true;
    return false;
  }

 private:
  struct Use {
    std::uintptr_t begin;
    std::size_t bytes;
    bool writes;
  };
  static std::vector<Use> uses(const PreparedCall& call) {
    std::vector<Use> uses;
    if (const auto at = reinterpret_cast<std::uintptr_t>(call.buffers.send); at != 0)
      uses.push_back({at, send_bytes(call.call), false});
    if (const auto at = reinterpret_cast<std::uintptr_t>(call.buffers.recv); at != 0)
      uses.push_back({at, recv_bytes(call.call), true});
    return uses;
  }
  static std::ptrdiff_t barriers(const MemberCalls& member, std::size_t before) {
    const auto calls = member.calls.first(before);
    return std::count_if(calls.begin(), calls.end(), [](const auto& c) {
      return c.call.call.collective == Collective::barrier;
    });
  }

  std::size_t below(std::size_t end) { return random_() % end; }
  std::byte* address() {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<std::byte*>(std::uintptr_t{11} + below(20));
  }
  /// In or out of place, of rank 0 to 2 of 3, or a barrier.
  PreparedCall call(int rank) {
    PreparedCall prepared;
    Call& c = prepared.call;
    c.collective = static_cast<Collective>(below(collective_count));
    c.type = DataType::u8;
    if (c.collective == Collective::barrier) return prepared;
    c.count = 1 + below(5);
    c.parts = parts_of(c.collective, 3);
    const CollectiveFacts facts = facts_of(c.collective);
    auto* const send = address();
    auto* const recv = address();
    const bool in_place = has_in_place(c.collective) && below(2) == 0;
    const bool message = c.collective == Collective::send_recv, sends = message && below(2) == 0;
    if (has(facts.send, c, rank) && (!message || sends)) prepared.buffers.send = send;
    if (has(facts.recv, c, rank) && (!message || !sends))
      prepared.buffers.recv = in_place ? send + in_place_distance(c, rank) : recv;
    return prepared;
  }

  std::mt19937& random_;
  std::size_t calls_ = 0;
  std::vector<std::vector<GroupedCall>> made_;
  std::vector<MemberCalls> members_;
  static constexpr Birth communicators_[] = {{.time = 1, .token = 2}, {.time = 1, .token = 3}};
};

/// Every pair of calls, where `check_disjoint` sorts.
TEST(CheckDisjoint, FindsWhatEveryPairSays) {
  std::mt19937 random(7);
  int refused = 0, taken = 0;
  for (int round = 0; round < 20000; ++round) {
    const RandomGroup group(random);
    std::vector<std::string> conflicts;  // in the words of the error
    for (const MemberCalls& a : group.members())
      for (const MemberCalls& b : group.members())
        for (std::size_t i = 0; i < a.calls.size(); ++i)
          for (std::size_t j = 0; j < b.calls.size(); ++j) {
            const auto first = a.calls[i].number, second = b.calls[j].number;
            if (first >= second || !RandomGroup::conflict(a, i, b, j)) continue;
            if (&a == &b)
              conflicts.push_back(
                  fmt::format("group: rank {}: calls {} and {} use", a.rank, first, second));
            else
              conflicts.push_back(
                  fmt::format("group: call {}, {} on rank {}, and call {}, {} on rank {}{}, use",
                              first, name_of(a.calls[i].call.call.collective), a.rank, second,
                              name_of(b.calls[j].call.call.collective), b.rank,
                              a.communicator == b.communicator ? "" : " of another communicator"));
          }
    ++(conflicts.empty() ? taken : refused);
    const auto error = error_of([&] { check_disjoint(group.members()); });
    ASSERT_EQ(error.has_value(), !conflicts.empty())
        << "round " << round << (error ? error->what() : ": " + conflicts[0]);
    if (!error) continue;
    const std::string text = error->what();
    EXPECT_TRUE(std::any_of(conflicts.begin(), conflicts.end(),
                            [&](const std::string& words) { return text.starts_with(words); }))
        << "round " << round << ": " << text << "; expected " << conflicts[0];
  }
  EXPECT_GT(refused, 2000);
  EXPECT_GT(taken, 2000);
}

}  // namespace
}  // namespace plait::test
