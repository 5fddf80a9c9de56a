// Rounds of collectives whose results are known, for ranks that look at them themselves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plait/plait.hpp"

namespace plait::test {

/// The calls of a round, in blocks of `count` elements. Element i of block b of rank r is
/// `scale` * (`round` + 3 r + 5 b + 7 i), so all that ranks receive is known.
class Round {
 public:
  Round(Communicator& comm, std::size_t count, std::uint32_t round)
      : comm_(comm),
        ranks_(static_cast<std::uint32_t>(comm.size())),
        rank_(static_cast<std::uint32_t>(comm.rank())),
        root_(static_cast<int>(round % ranks_)),
        count_(count),
        round_(round) {}

  /// All calls, or the one of this name. How many there were.
  int enqueue(std::string_view only = {}, const CallOptions& options = {}) {
    const std::span<const std::uint32_t> own(mine_), block = own.first(count_);
    int made = 0;
    only_ = only;
    const auto makes = [&](std::string_view name) { return is_made(name) && ++made > 0; };
    if (makes("all_reduce"))
      comm_.all_reduce(own, std::span(summed_), ReduceOp::sum, nullptr, options);
    if (makes("reduce_scatter"))
      comm_.reduce_scatter(own, std::span(scattered_), ReduceOp::sum, nullptr, options);
    if (makes("all_gather")) comm_.all_gather(block, std::span(gathered_), nullptr, options);
    if (makes("all_to_all")) comm_.all_to_all(own, std::span(exchanged_), nullptr, options);
    if (makes("broadcast")) comm_.broadcast(block, std::span(broadcast_), root_, nullptr, options);
    if (makes("reduce"))
      comm_.reduce(block, std::span(reduced_), ReduceOp::sum, root_, nullptr, options);
    if (makes("barrier")) comm_.barrier(nullptr, options);
    return made;
  }
  /// Once the calls are done: empty, or the name of the first call whose result is wrong.
  std::string_view wrong() const {
    const auto root = static_cast<std::uint32_t>(root_);
    const auto fails = [&](std::string_view name, const Values& received, std::uint32_t block,
                           auto wanted) { return is_made(name) && !is(received, block, wanted); };
    for (std::uint32_t b = 0; b < ranks_; ++b) {
      if (fails("all_reduce", summed_, b, [&](std::size_t i) { return sum(b, i); }))
        return "all_reduce";
      if (fails("all_gather", gathered_, b, [&](std::size_t i) { return value(b, 0, i); }))
        return "all_gather";
      if (fails("all_to_all", exchanged_, b, [&](std::size_t i) { return value(b, rank_, i); }))
        return "all_to_all";
    }
    if (fails("reduce_scatter", scattered_, 0, [&](std::size_t i) { return sum(rank_, i); }))
      return "reduce_scatter";
    if (fails("broadcast", broadcast_, 0, [&](std::size_t i) { return value(root, 0, i); }))
      return "broadcast";
    if (rank_ == root && fails("reduce", reduced_, 0, [&](std::size_t i) { return sum(0, i); }))
      return "reduce";
    return {};
  }

 private:
  using Values = std::vector<std::uint32_t>;

  bool is_made(std::string_view name) const { return only_.empty() || only_ == name; }
  static constexpr std::uint32_t scale = 0x9e3779b1;  // so that no byte is always zero
  std::uint32_t value(std::uint32_t rank, std::uint32_t block, std::size_t i) const {
    return scale * (round_ + 3 * rank + 5 * block + 7 * static_cast<std::uint32_t>(i));
  }
  std::uint32_t sum(std::uint32_t block, std::size_t i) const {
    return ranks_ * value(0, block, i) + scale * 3 * (ranks_ * (ranks_ - 1) / 2);
  }
  Values input() const {
    Values values(ranks_ * count_);
    for (std::uint32_t b = 0; b < ranks_; ++b)
      for (std::size_t i = 0; i < count_; ++i) values[b * count_ + i] = value(rank_, b, i);
    return values;
  }
  template <class Wanted>
  bool is(const Values& received, std::uint32_t block, Wanted wanted) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (received[block * count_ + i] != wanted(i)) return false;
    return true;
  }

  Communicator& comm_;
  std::uint32_t ranks_, rank_;
  int root_;
  std::size_t count_;
  std::uint32_t round_;
  std::string_view only_;
  Values mine_ = input(), summed_ = Values(ranks_ * count_), gathered_ = summed_,
         exchanged_ = summed_, scattered_ = Values(count_), broadcast_ = scattered_,
         reduced_ = scattered_;
};

}  // namespace plait::test
