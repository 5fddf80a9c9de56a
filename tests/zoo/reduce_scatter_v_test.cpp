// reduce_scatter_v: the reduction of blocks with a count per rank, against a plain computation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Counts = std::vector<std::size_t>;

using ReduceScatterV = Messages;
INSTANTIATE_TEST_SUITE_P(All, ReduceScatterV, testing::Range(1, under_tsan ? 5 : 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

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
      backend_of(comm_).begin_capture(stream.native());
      call(stream, options);
      const auto graph = backend_of(comm_).end_capture(stream.native());
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
    send_.place(0, all_ * sizeof(T));
    recv_.place(0, own_ * sizeof(T));
    for (std::size_t i = 0; i < all_; ++i) put(send_, i, element<T>(seed_, comm_.rank(), i, op_));
    send_.upload(stream);
    recv_.upload(stream);
  }
  void call(StreamRef stream, const CallOptions& options) {
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
      ASSERT_TRUE(are_same(get(send_, i), element<T>(seed_, comm_.rank(), i, op_)))
          << "input " << i << " was changed";
    }
    for (std::size_t i = 0; i < own_; ++i) {
      const T got = in_place_ ? get(send_, begin_ + i) : get(recv_, i);
      const auto wanted = expected<T>(seed_, comm_.size(), begin_ + i, op_, 1);
      ASSERT_TRUE(is_right(got, wanted)) << "element " << i << " of rank " << comm_.rank() << ": "
                                         << text_of(got) << " instead of " << text_of(wanted);
    }
  }
  static void put(DeviceArray& array, std::size_t i, const T& x) {
    std::memcpy(array.image() + i * sizeof(T), &x, sizeof(T));
  }
  static T get(const DeviceArray& array, std::size_t i) {
    T x;
    std::memcpy(static_cast<void*>(&x), array.image() + i * sizeof(T), sizeof(T));
    return x;
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

TEST_P(ReduceScatterV, NothingAtAll) {
  run([](Communicator& comm, Arena&) {
    const Counts none(static_cast<std::size_t>(comm.size()), 0);
    comm.reduce_scatter_v(nullptr, none, nullptr, DataType::f32, ReduceOp::sum);
    comm.synchronize();
  });
}

TEST_P(ReduceScatterV, BadArgumentsAreRefused) {
  run([](Communicator& comm, Arena& arena) {
    arena.send.place(0, 4096);
    arena.recv.place(0, 4096);
    const void* const from = arena.send.device();
    void* const to = arena.recv.device();
    const auto n = static_cast<std::size_t>(comm.size());
    const Counts good(n, 1), longer(n + 1, 1);
    Counts large(n, ~std::size_t{0} / 16), uneven(n, 1);
    large.back() = ~std::size_t{0} / 2;
    uneven.front() = 2;
    const auto refused = [&](const std::string& who, const Counts& counts, DataType type,
                             const std::string& why, CallOptions options = {},
                             ErrorCode code = ErrorCode::invalid_argument) {
      const auto call = [&] {
        comm.reduce_scatter_v(from, counts, to, type, ReduceOp::sum, {}, options);
      };
      const auto sentence =
          AllOf(HasSubstr(fmt::format("{}: rank {}: ", who, comm.rank())), HasSubstr(why));
      expect_error(error_of(call), code, sentence);
      const auto grouped = [&] {
        const Group group;
        call();
      };
      expect_error(error_of(grouped), code, sentence);
    };
    refused("reduce_scatter_v", longer, DataType::f32,
            fmt::format("{} counts, with {} ranks", n + 1, n));
    refused("reduce_scatter_v", large, DataType::f32, "the counts of f32 overflow");
    refused("reduce_scatter_v", good, static_cast<DataType>(99), "99 is no data type");
    if (n > 1)
      refused("reduce", uneven, DataType::boolean, "sum needs numbers, not bool", {},
              ErrorCode::unsupported);
    const auto blocks = [&] {
      const Group group;
      comm.reduce_scatter_v(from, uneven, to, DataType::f32, ReduceOp::sum, {}, {.blocking = true});
    };
    expect_error(error_of(blocks), ErrorCode::invalid_argument,
                 HasSubstr("reduce_scatter_v: rank " + std::to_string(comm.rank()) +
                           ": a blocking call in a group"));
    comm.barrier();
    comm.synchronize();
  });
}

}  // namespace
}  // namespace plait::test
