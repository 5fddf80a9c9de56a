// Many small all-reduces, whose results tell which of them went wrong.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "support/data.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {

/// Messages of one rank, of 64-bit integers, one after another in a DeviceArray.
class Messages {
 public:
  using Value = std::uint64_t;

  Messages(Communicator& comm, DeviceArray& send, DeviceArray& recv,
           std::vector<std::size_t> counts)
      : comm_(comm), send_(send), recv_(recv), counts_(std::move(counts)), starts_(counts_.size()) {
    std::exclusive_scan(counts_.begin(), counts_.end(), starts_.begin(), std::size_t{0});
    recv_.place(0, total() * sizeof(Value));
    send_.place(0, total() * sizeof(Value));
  }

  void fill(Value round, StreamRef stream = {}) {
    comm_.synchronize(filled_on_);  // the last upload reads what is written here
    filled_on_ = stream;
    round_ = round;
    send_.put<Value>(
        total(), [&](std::size_t i) { return element<Value>(round, comm_.rank(), i, op); }, stream);
    recv_.upload(stream);  // poison
  }
  std::size_t size() const { return counts_.size(); }
  const void* send(std::size_t m) const {
    return static_cast<const Value*>(send_.device()) + starts_[m];
  }
  void* recv(std::size_t m) const { return static_cast<Value*>(recv_.device()) + starts_[m]; }

  void call(std::size_t m, StreamRef stream = {}, const CallOptions& options = {}) const {
    comm_.all_reduce(send(m), recv(m), counts_[m], DataType::u64, op, stream, options);
  }
  void call_all(StreamRef stream = {}, const CallOptions& options = {}) const {
    for (std::size_t m = 0; m < size(); ++m) call(m, stream, options);
  }

  void expect_right(StreamRef stream = {}) {
    recv_.download(stream);
    comm_.synchronize(stream);
    EXPECT_EQ(recv_.damage(), "");
    for (std::size_t i = 0; i < total(); ++i) {
      const Value wanted = expected<Value>(round_, comm_.size(), i, op, 1),
                  got = recv_.get<Value>(i);
      if (got == wanted) continue;
      const auto m = std::upper_bound(starts_.begin(), starts_.end(), i) - starts_.begin() - 1;
      return report(
          comm_, fmt::format("round {}: element {} of all, in message {}: {} instead of {}", round_,
                             i, m, got, wanted));
    }
  }
  void expect_untouched() {
    recv_.download({});
    comm_.synchronize();
    EXPECT_TRUE(recv_.untouched()) << "something of the group was enqueued";
  }

 private:
  static constexpr ReduceOp op = ReduceOp::sum;
  std::size_t total() const { return counts_.empty() ? 0 : starts_.back() + counts_.back(); }

  Communicator& comm_;
  DeviceArray &send_, &recv_;
  std::vector<std::size_t> counts_, starts_;
  Value round_ = 0;
  StreamRef filled_on_{};
};

}  // namespace plait::test
