// reduce_scatter_v: the reduction of blocks with a count per rank, against a plain computation.
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

using Counts = std::vector<std::size_t>;

PLAIT_FOR_RANKS(ReduceScatterV, message_ranks());

enum class Where { apart, in_place, symmetric };

/// One call and its result. Blocks of other ranks stay as they are.
template <class T>
class Call {
 public:
  Call(Communicator& comm, Arena& arena, Counts counts, Where where, std::uint64_t seed,
       ReduceOp op)
      : comm_(comm),
        counts_(std::move(counts)),
        in_place_(where == Where::in_place),
        seed_(seed),
        op_(op),
        send_(where == Where::symmetric ? arena.symmetric_send : arena.send),
        recv_(where == Where::symmetric ? arena.symmetric_recv : arena.recv),
        all_(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0})),
        own_(counts_[static_cast<std::size_t>(comm.rank())]),
        begin_(std::accumulate(counts_.begin(), counts_.begin() + comm.rank(), std::size_t{0})) {}

  /// Alone, in a group, or captured and replayed.
  void check(std::uint64_t way, const CallOptions& options = {}) {
    const Stream stream = comm_.create_stream();
    fill(stream);
    if (way % 3 == 0) {
      call(stream, options);
    } else if (way % 3 == 1) {
      const Group group;
      call(stream, options);
    } else {
      comm_.synchronize(stream);
      const auto graph = captured(comm_, stream, [&] { call(stream, options); });
      graph->launch(stream.native());
      backend_of(comm_).synchronize(stream.native());
    }
    expect_right(stream);
  }

 private:
  void* to() const {
    return in_place_ ? static_cast<T*>(send_.device()) + begin_ : static_cast<T*>(recv_.device());
  }
  void fill(StreamRef stream) {
    send_.put<T>(
        all_, [&](std::size_t i) { return element<T>(seed_, comm_.rank(), i, op_); }, stream);
    recv_.place(0, own_ * sizeof(T));
    recv_.upload(stream);
  }
  void call(StreamRef stream, const CallOptions& options) {
    if (std::is_same_v<T, float> && seed_ % 2 == 1)
      comm_.reduce_scatter_v(std::span(static_cast<const T*>(send_.device()), all_), counts_,
                             std::span(static_cast<T*>(to()), own_), op_, stream, options);
    else
      comm_.reduce_scatter_v(send_.device(), counts_, to(), data_type_of<T>, op_, stream, options);
  }
  void expect_right(StreamRef stream) {
    send_.download(stream);
    recv_.download(stream);
    comm_.synchronize(stream);
    EXPECT_EQ(send_.damage(), "");
    EXPECT_EQ(recv_.damage(), "");
    for (std::size_t i = 0; i < all_; ++i) {
      if (in_place_ && i >= begin_ && i < begin_ + own_) continue;
      ASSERT_TRUE(are_same(send_.get<T>(i), element<T>(seed_, comm_.rank(), i, op_)))
          << "input " << i << " was changed";
    }
    for (std::size_t i = 0; i < own_; ++i) {
      const T got = in_place_ ? send_.get<T>(begin_ + i) : recv_.get<T>(i);
      const auto wanted = expected<T>(seed_, comm_.size(), begin_ + i, op_, 1);
      ASSERT_TRUE(is_right(got, wanted)) << "element " << i << " of rank " << comm_.rank() << ": "
                                         << text_of(got) << " instead of " << text_of(wanted);
    }
  }
  Communicator& comm_;
  Counts counts_;
  bool in_place_;
  std::uint64_t seed_;
  ReduceOp op_;
  DeviceArray &send_, &recv_;
  std::size_t all_, own_, begin_;
};

template <class T>
void check_rounds(Communicator& comm, Arena& arena, ReduceOp op) {
  for (std::uint64_t round = 0; round < (under_tsan ? 9 : 18); ++round) {
    Counts counts;
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::uint64_t h = hash(round, 7, static_cast<std::uint64_t>(rank));
      counts.push_back(round % 6 == 5 ? 17 : h % 3 == 0 ? 0 : (h >> 8) % (h % 7 == 0 ? 3000 : 90));
    }
    Call<T>(comm, arena, counts, static_cast<Where>(round / 3 % 3), round, op).check(round);
  }
}

TEST_P(ReduceScatterV, UnevenBlocks) {
  run([](Communicator& comm, Arena& arena) {
    check_rounds<float>(comm, arena, ReduceOp::sum);
    check_rounds<std::int32_t>(comm, arena, ReduceOp::max);
    check_rounds<std::int16_t>(comm, arena, ReduceOp::prod);
    check_rounds<std::complex<double>>(comm, arena, ReduceOp::prod);
    check_rounds<f16>(comm, arena, ReduceOp::avg);
  });
}

TEST_P(ReduceScatterV, BlockingAndByName) {
  run([](Communicator& comm, Arena& arena) {
    Counts counts(static_cast<std::size_t>(comm.size()), 40);
    counts.front() = 3000;
    for (const std::size_t first : {3000u, 40u}) {
      counts.front() = first;
      Call<double>(comm, arena, counts, Where::apart, first, ReduceOp::sum)
          .check(0, {.blocking = true});
      Call<double>(comm, arena, counts, Where::apart, first, ReduceOp::sum)
          .check(0, {.algorithm = "direct_push"});
    }
  });
}

}  // namespace
}  // namespace plait::test
