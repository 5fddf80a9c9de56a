// Shared by the tests of the end of calls: a block per rank to send and to receive, and a wait that
// only polls.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "algorithms/contract/collectives.hpp"
#include "communicator/streams.hpp"
#include "plait/communicator.hpp"
#include "support/data.hpp"
#include "support/ranks.hpp"

namespace plait::test {

inline constexpr std::size_t count = 100;  // elements of a block
inline constexpr float untouched = -1;

inline float value(int rank, std::size_t i) { return element<float>(1, rank, i, ReduceOp::sum); }

/// A block per rank to send and to receive, which the host and the device can use.
class Blocks {
 public:
  explicit Blocks(Communicator& comm)
      : backend_(backend_of(comm)), rank_(comm.rank()), ranks_(comm.size()) {
    send = static_cast<float*>(backend_.allocate_pinned(elements() * sizeof(float)));
    recv = static_cast<float*>(backend_.allocate_pinned(elements() * sizeof(float)));
    for (std::size_t i = 0; i < elements(); ++i) send[i] = value(rank_, i);
    std::fill_n(recv, elements(), untouched);
  }
  ~Blocks() {
    backend_.deallocate_pinned(send);
    backend_.deallocate_pinned(recv);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// So many elements have come, which are `wanted`; makes room for the next ones.
  template <class Wanted>
  void expect(std::size_t size, const Wanted& wanted) const {
    for (std::size_t i = 0; i < elements(); ++i)
      ASSERT_EQ(recv[i], i < size ? wanted(i) : untouched) << "rank " << rank_ << ", element " << i;
    std::fill_n(recv, elements(), untouched);
  }
  /// What a call of `count` elements, whose root is rank 0, gives.
  void expect(Collective collective) const {
    const Call call{
        .collective = collective, .count = count, .parts = parts_of(collective, ranks_)};
    const bool receives =
        has(facts_of(collective).recv, call, rank_) && terms_of(collective, rank_, ranks_) != 0;
    expect(receives ? recv_bytes(call) / sizeof(float) : 0,
           [&](std::size_t i) { return received<float>(call, 1, ranks_, rank_, i); });
  }

  float *send = nullptr, *recv = nullptr;

 private:
  std::size_t elements() const { return count * static_cast<std::size_t>(ranks_); }

  Backend& backend_;
  int rank_, ranks_;
};

/// Polls until the stream is empty.
inline void poll(Communicator& comm, StreamRef stream) {
  ASSERT_TRUE(comes_true([&] { return comm.test(stream); })) << "the stream is never empty";
}

}  // namespace plait::test
