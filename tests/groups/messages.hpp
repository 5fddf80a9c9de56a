// Many small all-reduces, whose results tell which of them went wrong.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {

/// Messages of one rank, of 64-bit integers, one after another in a DeviceArray. Rank r sends its
/// number, the message's and the element's in different powers of ten, so that sums tell what went
/// wrong.
class Messages {
 public:
  using Value = std::uint64_t;

  Messages(Communicator& comm, DeviceArray& send, DeviceArray& recv,
           std::vector<std::size_t> counts)
      : comm_(comm), send_(send), recv_(recv), counts_(std::move(counts)) {
    for (const std::size_t count : counts_) {
      starts_.push_back(total_);
      total_ += count;
    }
    send_.place(0, total_ * sizeof(Value));
    recv_.place(0, total_ * sizeof(Value));
  }

  void fill(Value round, StreamRef stream = {}) {
    comm_.synchronize(filled_on_);  // the last upload reads what is written here
    filled_on_ = stream;
    round_ = round;
    auto* values = reinterpret_cast<Value*>(send_.image());
    for (std::size_t m = 0; m < counts_.size(); ++m)
      for (std::size_t i = 0; i < counts_[m]; ++i)
        values[starts_[m] + i] = value(comm_.rank(), m, i);
    send_.upload(stream);
    recv_.upload(stream);  // poison
  }
  std::size_t size() const { return counts_.size(); }
  const void* send(std::size_t m) const {
    return static_cast<const Value*>(send_.device()) + starts_[m];
  }
  void* recv(std::size_t m) const { return static_cast<Value*>(recv_.device()) + starts_[m]; }

  void call(std::size_t m, StreamRef stream = {}, const CallOptions& options = {}) const {
    comm_.all_reduce(send(m), recv(m), counts_[m], DataType::u64, ReduceOp::sum, stream, options);
  }
  void call_all(StreamRef stream = {}, const CallOptions& options = {}) const {
    for (std::size_t m = 0; m < size(); ++m) call(m, stream, options);
  }

  void expect_right(StreamRef stream = {}) {
    recv_.download(stream);
    comm_.synchronize(stream);
    EXPECT_EQ(recv_.damage(), "");
    Value values = 0;
    for (std::size_t m = 0; m < counts_.size(); ++m)
      for (std::size_t i = 0; i < counts_[m]; ++i) {
        Value wanted = 0;
        for (int rank = 0; rank < comm_.size(); ++rank) wanted += value(rank, m, i);
        std::memcpy(&values, recv_.image() + (starts_[m] + i) * sizeof values, sizeof values);
        if (values != wanted)
          return report(comm_,
                        fmt::format("round {}: element {} of {} of message {}: {} instead of {}",
                                    round_, i, counts_[m], m, values, wanted));
      }
  }
  void expect_untouched() {
    recv_.download({});
    comm_.synchronize();
    EXPECT_TRUE(recv_.untouched()) << "something of the group was enqueued";
  }

 private:
  Value value(int rank, std::size_t m, std::size_t i) const {
    return static_cast<Value>(rank + 1) * 1'000'000'000'000 + round_ * 1'000'000'000 + m * 100'000 +
           i;
  }

  Communicator& comm_;
  DeviceArray &send_, &recv_;
  std::vector<std::size_t> counts_, starts_;
  std::size_t total_ = 0;
  Value round_ = 0;
  StreamRef filled_on_{};
};

}  // namespace plait::test
