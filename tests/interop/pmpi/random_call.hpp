// A collective call of MPI that is drawn at random, made by libplait-pmpi and by the MPI below it.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "interop/pmpi/forms.hpp"
#include "interop/pmpi/statistics.hpp"
#include "support/data.hpp"

namespace plait::test {

// NOLINTBEGIN(bugprone-macro-parentheses): names are declared
/// The functions of one side, and one form.
struct Mpi {
#define PLAIT_NAME(NAME, INAME) decltype(&PMPI_##NAME) NAME;
  PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)
#undef PLAIT_NAME
};
#define PLAIT_NAME(NAME, INAME) MPI_##NAME,
inline const Mpi own{PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)};
#undef PLAIT_NAME
#define PLAIT_NAME(NAME, INAME) Ended<&MPI_##INAME, decltype(&PMPI_##NAME)>::call,
inline const Mpi own_nonblocking{PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)};
#undef PLAIT_NAME
#define PLAIT_NAME(NAME, INAME) Started<&PLAIT_INIT(NAME), decltype(&PMPI_##NAME)>::call,
inline const Mpi own_persistent{PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)};
#undef PLAIT_NAME
#define PLAIT_NAME(NAME, INAME) PMPI_##NAME,
inline const Mpi below{PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)};
#undef PLAIT_NAME
// NOLINTEND(bugprone-macro-parentheses)

using Ints = std::vector<int>;

/// A way to describe pairs of ints. Ranks pick different ones for the same data.
struct Layout {
  MPI_Datatype type;
  int elements;               // of the type in a pair
  std::size_t span;           // ints from one pair to the next
  std::size_t first, second;  // where its ints lie there
};

class Layouts {
 public:
  Layouts() {
    all_.push_back({MPI_INT, 2, 2, 0, 1});
    add(2, 0, 1, [](MPI_Datatype* type) { MPI_Type_contiguous(2, MPI_INT, type); });
    // With a gap between both, and one behind them.
    add(4, 0, 2, [](MPI_Datatype* type) {
      MPI_Datatype gaps;
      MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
      MPI_Type_create_resized(gaps, 0, 4 * sizeof(int), type);
      MPI_Type_free(&gaps);
    });
    // The second lies before the first, so size and extent look like those of a row.
    add(2, 1, 0, [](MPI_Datatype* type) {
      const int lengths[] = {1, 1}, places[] = {1, 0};
      MPI_Type_indexed(2, lengths, places, MPI_INT, type);
    });
  }
  ~Layouts() {
    for (std::size_t i = 1; i < all_.size(); ++i) MPI_Type_free(&all_[i].type);
  }
  const Layout& plain() const { return all_[0]; }
  const Layout& pick(std::uint64_t h) const { return all_[h % all_.size()]; }

 private:
  void add(std::size_t span, std::size_t first, std::size_t second,
           const std::function<void(MPI_Datatype*)>& make) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    make(&type);
    MPI_Type_commit(&type);
    all_.push_back({type, 1, span, first, second});
  }
  std::vector<Layout> all_;
};

/// A call of both sides with equal buffers, drawn from its number and, where ranks may differ, the
/// rank.
class Draw {
 public:
  Draw(std::uint64_t number, MPI_Comm comm, const Layouts& layouts)
      : number_(number), comm_(comm), layouts_(layouts) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &ranks_);
    root_ = static_cast<int>(same(1) % size(ranks_));
    in_place_ = same(2) % 4 == 0;
    // Mostly small, now and then longer than a slot.
    n_ = static_cast<int>(same(3) % (same(4) % 16 == 0 ? 20000 : 40));
    sent_ = layouts.pick(of_rank(5));
    received_ = layouts.pick(of_rank(6));
  }

  void run() {
    switch (same(0) % 16) {
      case 0:
        return reduces([&](const Mpi& mpi, const void* send, void* recv, auto... what) {
          return mpi.Allreduce(send, recv, n_, what..., comm_);
        });
      case 1:
        return reduces([&](const Mpi& mpi, const void* send, void* recv, auto... what) {
          return mpi.Scan(send, recv, n_, what..., comm_);
        });
      case 2:
        return reduces([&](const Mpi& mpi, const void* send, void* recv, auto... what) {
          return mpi.Exscan(send, recv, n_, what..., comm_);
        });
      case 3:
        in_place_ = in_place_ && rank_ == root_;
        return reduces([&](const Mpi& mpi, const void* send, void* recv, auto... what) {
          return mpi.Reduce(send, recv, n_, what..., root_, comm_);
        });
      case 4:
        in_place_ = of_rank(2) % 2 == 0;  // not on all ranks alike
        return reduces(
            [&](const Mpi& mpi, const void* send, void* recv, auto... what) {
              return mpi.Reduce_scatter_block(send, recv, n_, what..., comm_);
            },
            n_ * ranks_);
      case 5: {
        in_place_ = of_rank(2) % 2 == 0;
        const Blocks blocks = blocks_of(same(7));
        return reduces(
            [&](const Mpi& mpi, const void* send, void* recv, auto... what) {
              return mpi.Reduce_scatter(send, recv, blocks.counts.data(), what..., comm_);
            },
            std::accumulate(blocks.counts.begin(), blocks.counts.end(), 0));
      }
      case 6:
        return compare(0, n(), [&](const Mpi& mpi, const int*, int* recv) {
          return mpi.Bcast(recv, n_ * received_.elements, received_.type, root_, comm_);
        });
      case 7:
        return compare(n(), size(ranks_) * n(), [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Allgather(given(send), n_ * sent_.elements, sent_.type, recv,
                               n_ * received_.elements, received_.type, comm_);
        });
      case 8:
        return compare(size(ranks_) * n(), size(ranks_) * n(),
                       [&](const Mpi& mpi, const int* send, int* recv) {
                         return mpi.Alltoall(given(send), n_ * sent_.elements, sent_.type, recv,
                                             n_ * received_.elements, received_.type, comm_);
                       });
      case 9:
        in_place_ = in_place_ && rank_ == root_;
        return compare(n(), size(ranks_) * n(), [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Gather(given(send), n_ * sent_.elements, sent_.type, recv,
                            n_ * received_.elements, received_.type, root_, comm_);
        });
      case 10:
        in_place_ = in_place_ && rank_ == root_;
        return compare(size(ranks_) * n(), n(), [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Scatter(send, n_ * sent_.elements, sent_.type, in_place_ ? MPI_IN_PLACE : recv,
                             n_ * received_.elements, received_.type, root_, comm_);
        });
      case 11:
        return mpi_barrier();
      default:
        return moves_blocks();
    }
  }

 private:
  struct Blocks {
    std::vector<int> counts, places;  // in pairs, and in spans
    std::size_t all = 0;              // spans
  };

  const Mpi& mine() const {
    const Mpi* const forms[] = {&own, &own_nonblocking, &own_persistent};
    return *forms[same(12) % 3];
  }
  std::size_t n() const { return size(n_); }
  static std::size_t size(int count) { return static_cast<std::size_t>(count); }
  std::uint64_t same(std::uint64_t what) const { return hash(number_, 1000, what); }
  std::uint64_t of_rank(std::uint64_t what) const { return hash(number_, size(rank_), what); }
  const void* given(const void* send) const { return in_place_ ? MPI_IN_PLACE : send; }

  /// A block per rank, with gaps, and in an order that is drawn, too.
  Blocks blocks_of(std::uint64_t seed) const {
    Blocks blocks;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::uint64_t h = hash(seed, size(rank), 0);
      blocks.counts.push_back(h % 4 == 0 ? 0 : static_cast<int>(h / 4 % (size(n_) + 1)));
    }
    blocks.places.resize(size(ranks_));
    for (int i = 0; i < ranks_; ++i) {
      const int rank = seed % 2 == 0 ? i : ranks_ - 1 - i;
      blocks.places[size(rank)] = static_cast<int>(blocks.all);
      blocks.all += size(blocks.counts[size(rank)]) + hash(seed, size(rank), 1) % 3;
    }
    return blocks;
  }
  /// In elements of a layout.
  static Ints times(Ints counts, const Layout& layout) {
    for (int& count : counts) count *= layout.elements;
    return counts;
  }

  void moves_blocks() {
    // What rank a sends to rank b is drawn from both, so each knows it.
    const auto between = [&](int a, int b) {
      const auto [first, last] = std::minmax(a, b);
      // In place, both send each other as much.
      const std::uint64_t h = in_place_ ? hash(number_ + 77, size(first), size(last))
                                        : hash(number_ + 77, size(a), size(b));
      return h % 4 == 0 ? 0 : static_cast<int>(h / 4 % (size(n_) + 1));
    };
    const Blocks mine = blocks_of(same(8));
    const auto of = [](const Ints& counts, const Layout& layout) { return times(counts, layout); };
    const int own_count = mine.counts[size(rank_)];
    const std::size_t all = mine.all;
    switch (same(9) % 4) {
      case 0:
        return compare(size(own_count), all, [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Allgatherv(given(send), own_count * sent_.elements, sent_.type, recv,
                                of(mine.counts, received_).data(),
                                of(mine.places, received_).data(), received_.type, comm_);
        });
      case 1:
        in_place_ = in_place_ && rank_ == root_;
        return compare(size(own_count), all, [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Gatherv(given(send), own_count * sent_.elements, sent_.type, recv,
                             of(mine.counts, received_).data(), of(mine.places, received_).data(),
                             received_.type, root_, comm_);
        });
      case 2:
        in_place_ = in_place_ && rank_ == root_;
        return compare(all, size(own_count), [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Scatterv(send, of(mine.counts, sent_).data(), of(mine.places, sent_).data(),
                              sent_.type, in_place_ ? MPI_IN_PLACE : recv,
                              own_count * received_.elements, received_.type, root_, comm_);
        });
      default: {
        Blocks to, from;
        const auto add = [&](Blocks& blocks, int count) {
          blocks.counts.push_back(count);
          blocks.places.push_back(static_cast<int>(blocks.all));
          blocks.all += size(count) + 1;
        };
        for (int peer = 0; peer < ranks_; ++peer) {
          add(to, between(rank_, peer));
          add(from, between(peer, rank_));
        }
        return compare(to.all, from.all, [&](const Mpi& mpi, const int* send, int* recv) {
          return mpi.Alltoallv(given(send), of(to.counts, sent_).data(),
                               of(to.places, sent_).data(), sent_.type, recv,
                               of(from.counts, received_).data(), of(from.places, received_).data(),
                               received_.type, comm_);
        });
      }
    }
  }

  void mpi_barrier() { EXPECT_EQ(mine().Barrier(comm_), MPI_SUCCESS); }

  /// Pairs that are drawn, in a layout whose gaps are drawn, too.
  Ints drawn(std::size_t pairs, const Layout& layout, std::uint64_t what) const {
    Ints data;
    for (std::size_t i = 0; i < pairs * layout.span; ++i)
      data.push_back(static_cast<int>(of_rank(what + 5'000'000 + i)));
    for (std::size_t i = 0; i < pairs; ++i) {
      data[i * layout.span + layout.first] = static_cast<int>(of_rank(what + 2 * i));
      data[i * layout.span + layout.second] = static_cast<int>(of_rank(what + 2 * i + 1));
    }
    return data;
  }

  /// `call(side, send, recv)` of both sides, with so many pairs: the same pairs afterwards, and the
  /// same gaps as before. The MPI below gets pairs in a row on all ranks. Where ranks describe data
  /// by different types, Open MPI 4, MPICH 5 and Intel's MPI choose different algorithms on them,
  /// and hang, fail or give wrong data.
  template <class F>
  void compare(std::size_t send_pairs, std::size_t recv_pairs, const F& call) {
    const Ints send_before = drawn(send_pairs, sent_, 100);
    Ints send = send_before, receive = drawn(recv_pairs, received_, 9'000'000);
    ASSERT_EQ(call(mine(), send.data(), receive.data()), MPI_SUCCESS) << what();
    ASSERT_EQ(send, send_before) << what();
    Ints expected = drawn(recv_pairs, received_, 9'000'000);
    const Layout layout = std::exchange(received_, layouts_.plain());
    sent_ = layouts_.plain();
    send = drawn(send_pairs, sent_, 100);
    Ints below_receives = drawn(recv_pairs, received_, 9'000'000);
    ASSERT_EQ(call(below, send.data(), below_receives.data()), MPI_SUCCESS) << what();
    for (std::size_t i = 0; i < recv_pairs; ++i) {
      expected[i * layout.span + layout.first] = below_receives[2 * i];
      expected[i * layout.span + layout.second] = below_receives[2 * i + 1];
    }
    const auto apart = std::mismatch(receive.begin(), receive.end(), expected.begin());
    ASSERT_TRUE(apart.first == receive.end())
        << what() << ": from int " << apart.first - receive.begin();
  }

  /// Reductions of `elements` terms, n without, of a type and an operation that are drawn.
  template <class F>
  void reduces(const F& call, int elements = -1) {
    const std::size_t count = size(elements < 0 ? n_ : elements);
    const MPI_Op of_ints[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,
                              MPI_LXOR, MPI_LOR,  MPI_BOR, MPI_BXOR, MPI_BAND};
    const MPI_Op of_floats[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    const MPI_Op of_pairs[] = {MPI_MINLOC, MPI_MAXLOC};
    const std::uint64_t draw = same(11);
    // Logical operations get 0 and 1: a scan of one term is that term in MPI, and 0 or 1 in Plait.
    const bool logical = draw % 10 >= 4 && draw % 10 <= 6;
    const auto small = [&](std::size_t i) {
      const int term = static_cast<int>(of_rank(i + 200) % 5) - 2;
      return logical ? term & 1 : term;
    };
    switch (same(10) % 6) {
      case 0:
        return reduces_of<int>(call, count, MPI_INT, of_ints[draw % 10], small);
      case 1:
        return reduces_of<double>(call, count, MPI_DOUBLE, of_floats[draw % 4], small);
      case 2:
        return reduces_of<float>(call, count, MPI_FLOAT, of_floats[draw % 4], small);
      case 3:
        return reduces_of<std::int64_t>(call, count, MPI_LONG, of_ints[draw % 10], small);
      case 4:
        // Not negative: Open MPI 4 saturates some sums of bytes, and wraps others.
        return reduces_of<std::uint8_t>(call, count, MPI_UINT8_T, of_ints[draw % 10],
                                        [&](std::size_t i) { return small(i) & 3; });
      default:
        struct Pair {
          int value, index;
          bool operator==(const Pair&) const = default;
        };
        return reduces_of<Pair>(call, count, MPI_2INT, of_pairs[draw % 2], [&](std::size_t i) {
          return Pair{small(i), static_cast<int>(of_rank(i) % 7)};
        });
    }
  }
  template <class T, class F, class Value>
  void reduces_of(const F& call, std::size_t count, MPI_Datatype type, MPI_Op op,
                  const Value& value) {
    std::vector<T> sends[2], receives[2];
    for (int side = 0; side < 2; ++side) {
      // Also empty ones have addresses: Open MPI 4's MPIX_Reduce_init refuses two equal ones.
      sends[side].reserve(count + 1);
      receives[side].reserve(count + 1);
      for (std::size_t i = 0; i < count; ++i) {
        sends[side].push_back(static_cast<T>(value(i)));
        receives[side].push_back(static_cast<T>(value(i + 500000)));
      }
      const int status = call(side == 0 ? mine() : below, given(sends[side].data()),
                              receives[side].data(), type, op);
      ASSERT_EQ(status, MPI_SUCCESS) << what();
    }
    // In place, a reduce-scatter leaves the rest of its buffer in any state.
    if (in_place_ && (same(0) % 16 == 4 || same(0) % 16 == 5)) {
      const std::size_t kept =
          same(0) % 16 == 4 ? size(n_) : size(blocks_of(same(7)).counts[size(rank_)]);
      receives[0].resize(kept);
      receives[1].resize(kept);
    }
    const auto apart = std::mismatch(receives[0].begin(), receives[0].end(), receives[1].begin());
    ASSERT_TRUE(apart.first == receives[0].end())
        << what() << ": from element " << apart.first - receives[0].begin();
  }

  std::string what() const {
    return fmt::format(
        "call {}, form {} kind {} {} {} {}, n {}, rank {} of {}, root {}, in place {}", number_,
        same(12) % 3, same(0) % 16, same(9) % 4, same(10) % 6, same(11) % 20, n_, rank_, ranks_,
        root_, in_place_);
  }

  std::uint64_t number_;
  MPI_Comm comm_;
  const Layouts& layouts_;
  int rank_ = 0, ranks_ = 0, root_ = 0, n_ = 0;
  bool in_place_ = false;
  Layout sent_{}, received_{};
};

}  // namespace plait::test
