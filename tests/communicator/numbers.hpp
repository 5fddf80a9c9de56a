// Numbers that ranks send in the tests of known calls: others in each round, on each rank and in
// each place.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/backend.hpp"
#include "support/data.hpp"

namespace plait::test {

/// What a rank sends in a round: other values in each place, so that a launch which repeats an
/// address of another call gives something else.
inline int sent(int round, int rank, std::size_t i) {
  return element<int>(static_cast<std::uint64_t>(round), rank, i, ReduceOp::sum);
}

/// Device memory of one rank, read and written through the communicator's stream.
class Numbers {
 public:
  Numbers(Backend& backend, std::size_t size)
      : backend_(backend), owned_(backend.allocate(size * sizeof(int))), at_(owned_), size_(size) {}
  Numbers(Backend& backend, void* memory, std::size_t size)
      : backend_(backend), at_(memory), size_(size) {}
  ~Numbers() {
    if (owned_ != nullptr) backend_.deallocate(owned_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  int* data() const { return static_cast<int*>(at_); }
  /// With what the rank sends in that round.
  void fill(int round, int rank) {
    std::vector<int> values(size_);
    for (std::size_t i = 0; i < size_; ++i) values[i] = sent(round, rank, i);
    move(at_, values.data());
  }
  /// Element i is wanted(i).
  template <class Wanted>
  void expect(const Wanted& wanted, int round = 0) const {
    std::vector<int> values(size_);
    move(values.data(), at_);
    for (std::size_t i = 0; i < size_; ++i)
      ASSERT_EQ(values[i], wanted(i)) << "round " << round << ", element " << i;
  }
  /// What the rank sends in that round.
  void expect_sent(int round, int rank) const {
    expect([&](std::size_t i) { return sent(round, rank, i); }, round);
  }
  /// What the ranks' numbers of that round come to.
  void expect_reduced(int round, int ranks, ReduceOp op = ReduceOp::sum) const {
    const auto seed = static_cast<std::uint64_t>(round);
    expect([&](std::size_t i) { return expected<int>(seed, ranks, i, op, 1); }, round);
  }

 private:
  void move(void* to, const void* from) const {
    backend_.copy(to, from, size_ * sizeof(int), nullptr);
    backend_.synchronize(nullptr);
  }
  Backend& backend_;
  void* owned_ = nullptr;
  void* at_;
  std::size_t size_;
};

}  // namespace plait::test
