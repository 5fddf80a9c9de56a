// Reductions by a function of the program: elements of any size, in rank order.
#include "plait/host_operation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/signal_mask.hpp"
#include "support/data.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

/// 2 x 2 matrices modulo a prime. Their product does not commute.
struct Matrix {
  std::array<std::uint32_t, 4> at;
  friend bool operator==(const Matrix&, const Matrix&) = default;
  static Matrix combined(const Matrix& a, const Matrix& b) {
    const auto dot = [&](std::size_t row, std::size_t column) {
      return static_cast<std::uint32_t>((std::uint64_t{a.at[2 * row]} * b.at[column] +
                                         std::uint64_t{a.at[2 * row + 1]} * b.at[2 + column]) %
                                        65521);
    };
    return {{dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)}};
  }
  static Matrix make(int rank, std::size_t i) {
    Matrix matrix{};
    for (std::size_t k = 0; k < 4; ++k)
      matrix.at.at(k) =
          static_cast<std::uint32_t>(hash(k, static_cast<std::uint64_t>(rank), i) % 65521);
    return matrix;
  }
};

/// Texts of up to 10 letters. Of their concatenation the first 10 count. The size is odd.
struct Text {
  std::uint8_t length;
  std::array<char, 10> letters;
  friend bool operator==(const Text&, const Text&) = default;
  static Text combined(const Text& a, const Text& b) {
    Text both = a;
    for (std::size_t i = 0; i < b.length && both.length < both.letters.size(); ++i)
      both.letters.at(both.length++) = b.letters.at(i);
    return both;
  }
  static Text make(int rank, std::size_t i) {
    Text text{.length = static_cast<std::uint8_t>(1 + i % 2), .letters = {}};
    for (std::size_t k = 0; k < text.length; ++k)
      text.letters.at(k) =
          static_cast<char>('a' + (static_cast<std::size_t>(rank) * 3 + i + k) % 26);
    return text;
  }
};

template <class T>
constexpr auto combine = HostOperation::of<T>([](const T& a, const T& b) {
  return T::combined(a, b);
});

template <class T>
std::vector<T> terms(int rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = T::make(rank, i);
  return all;
}
template <class T>
std::vector<T> result(int ranks, std::size_t count) {
  std::vector<T> all = terms<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) all[i] = T::combined(all[i], T::make(rank, i));
  return all;
}

const CommunicatorOptions on_host{.backend = BackendKind::host};

/// Memory of both buffers, ordinary or symmetric.
template <class T>
class Memory {
 public:
  Memory(Communicator& comm, std::size_t count, bool symmetric) {
    if (symmetric) buffer_ = comm.allocate<T>(2 * count);
    else ordinary_.resize(2 * count);
    T* const begin = symmetric ? buffer_.data() : ordinary_.data();
    send = {begin, count};
    recv = {begin + count, count};
  }
  std::span<T> send, recv;

 private:
  std::vector<T> ordinary_;
  Buffer<T> buffer_;
};

/// Every call that takes an operation.
template <class T>
void check(Communicator& comm, std::size_t count, bool in_place, bool symmetric) {
  const auto ranks = static_cast<std::size_t>(comm.size()),
             rank = static_cast<std::size_t>(comm.rank());
  const auto where = fmt::format("rank {} of {}, count {}{}{}", rank, ranks, count,
                                 in_place ? ", in place" : "", symmetric ? ", symmetric" : "");
  const HostOperation& op = combine<T>;
  Memory<T> memory(comm, count * ranks, symmetric);
  const auto all = memory.send.subspan(0, count), to = in_place ? all : memory.recv.first(count);
  const std::vector<T> mine = terms<T>(comm.rank(), count * ranks);
  // The call leaves `wanted`, from one element on, in `got`.
  const auto expect = [&](const char* what, std::span<const T> got, const std::vector<T>& wanted,
                          std::size_t from, const auto& call) {
    std::copy(mine.begin(), mine.end(), memory.send.begin());
    std::fill(memory.recv.begin(), memory.recv.end(), T{});
    call();
    comm.synchronize();
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(from);
    ASSERT_TRUE(std::equal(got.begin(), got.end(), first)) << what << ": " << where;
  };
  const int n = comm.size(), r = comm.rank();
  const std::vector<T> sum = result<T>(n, count * ranks),
                       before = r > 0      ? result<T>(r, count)
                                : in_place ? mine
                                           : std::vector<T>(count);  // rank 0 has no result
  expect("all_reduce", to, sum, 0, [&] { comm.all_reduce(all, to, op); });
  for (const int root : {0, n - 1})
    expect("reduce", r == root ? to : all, r == root ? sum : mine, 0,
           [&] { comm.reduce(all, to, op, root); });
  expect("scan", to, result<T>(r + 1, count), 0, [&] { comm.scan(all, to, op); });
  expect("exscan", to, before, 0, [&] { comm.exscan(all, to, op); });
  const auto block = in_place ? memory.send.subspan(rank * count, count) : to;
  expect("reduce_scatter", block, sum, rank * count,
         [&] { comm.reduce_scatter(memory.send, block, op); });
  if (in_place)
    std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(rank * count), count, block.begin());
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), memory.send.begin())) << "send: " << where;
}

PLAIT_FOR_RANKS(HostOperations, testing::Values(1, 2, 3, 5, 8));

/// Exchanged whole, in parts with a rest, and in several rounds.
TEST_P(HostOperations, CombineInRankOrder) {
  run_ranks(GetParam(), on_host, [](Communicator& comm, int) {
    for (const std::size_t count : {0, 1, 3, 7, 1001, 1490})
      for (const bool in_place : {false, true}) {
        check<Matrix>(comm, count, in_place, count % 2 == 0);
        check<Text>(comm, count, in_place, count % 2 != 0);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

/// The function runs on the stream's thread, because no thread waits for the stream.
TEST(HostOperationsOnTheirStream, SeeTheSignalMaskOfTheThreadThatMadeIt) {
  struct Seen {
    std::thread::id thread;
    sigset_t mask{};
    std::atomic<bool> done = false;
  };
  constexpr HostOperation::Function note = [](const void* in, void* inout, std::size_t count,
                                              void* context) {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<std::uint64_t*>(inout)[i] ^= static_cast<const std::uint64_t*>(in)[i];
    auto& seen = *static_cast<Seen*>(context);
    seen.thread = std::this_thread::get_id();
    seen.mask = SignalMask::of_thread();
    seen.done = true;
  };
  run_ranks(2, on_host, [&](Communicator& comm, int rank) {
    const auto term = [](int of) { return hash(1, static_cast<std::uint64_t>(of), 0); };
    Seen seen;
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    const auto stream = [&] {
      const SignalMask own(wanted);
      return comm.create_stream();
    }();
    std::uint64_t word = term(rank);
    comm.all_reduce(&word, &word, 1,
                    {.function = note,
                     .element_bytes = sizeof word,
                     .alignment = alignof(std::uint64_t),
                     .context = &seen},
                    stream);
    while (!seen.done) std::this_thread::yield();
    EXPECT_NE(seen.thread, std::this_thread::get_id());
    for (int signal = 1; signal <= SIGRTMAX; ++signal)
      EXPECT_EQ(sigismember(&seen.mask, signal), sigismember(&wanted, signal)) << signal;
    comm.synchronize(stream);
    EXPECT_EQ(word, term(0) ^ term(1));
  });
}

class LargeHostOperations : public HostOperations {};
INSTANTIATE_TEST_SUITE_P(All, LargeHostOperations,
                         testing::ValuesIn(under_tsan ? std::vector{3} : std::vector{1, 2, 3, 5}),
                         TestName());
TEST_P(LargeHostOperations, TakeMessagesBeyondTheWorkMemory) {
  run_ranks(GetParam(), on_host, [](Communicator& comm, int) {
    check<Matrix>(comm, (std::size_t{9} << 19) / sizeof(Matrix) + 5, false, false);
  });
}

/// The work memory grows for large elements.
struct Large {
  std::array<std::uint32_t, (3 << 20) / 4> words;
};
TEST(HostOperation, TakesLargeElements) {
  run_ranks(2, on_host, [](Communicator& comm, int rank) {
    static constexpr auto op =
        HostOperation{.function =
                          [](const void* in, void* inout, std::size_t count, void*) {
                            const auto* const lower = static_cast<const Large*>(in);
                            auto* const higher = static_cast<Large*>(inout);
                            for (std::size_t i = 0; i < count; ++i)
                              for (std::size_t k = 0; k < lower[i].words.size(); ++k)
                                higher[i].words[k] = 3 * lower[i].words[k] - higher[i].words[k];
                          },
                      .element_bytes = sizeof(Large)};
    std::vector<Large> x(3);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i].words.fill(10 * static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(rank));
    comm.all_reduce(std::span(x), std::span(x), op);
    comm.synchronize();
    for (std::uint32_t i = 0; i < x.size(); ++i)
      for (const std::uint32_t word : x[i].words) ASSERT_EQ(word, 20 * i - 1) << rank;
  });
}

/// Calls on several streams, without a wait between them, share the work memory.
TEST_P(HostOperations, FollowEachOtherOnAnyStream) {
  run_ranks(GetParam(), on_host, [](Communicator& comm, int rank) {
    constexpr std::size_t calls = 60;
    const std::array<Stream, 2> streams{comm.create_stream(), comm.create_stream()};
    const std::array<std::size_t, 3> counts{5, 900, 1700};
    std::vector<std::vector<Matrix>> values;
    for (std::size_t i = 0; i < calls; ++i) values.push_back(terms<Matrix>(rank, counts[i % 3]));
    for (std::size_t i = 0; i < calls; ++i)
      comm.all_reduce(std::span<const Matrix>(values[i]), std::span(values[i]), combine<Matrix>,
                      streams.at(i % 2));
    for (const Stream& stream : streams) comm.synchronize(stream);
    for (std::size_t i = 0; i < calls; ++i)
      ASSERT_EQ(values[i], result<Matrix>(comm.size(), counts[i % 3])) << i << ", rank " << rank;
  });
}

/// A graph keeps the function, its context and the memory, also after larger elements have come.
TEST_P(HostOperations, AreCaptured) {
  run_ranks(GetParam(), on_host, [](Communicator& comm, int rank) {
    struct Counter {
      std::atomic<std::size_t> elements{0};
    } counter;
    const HostOperation op{.function =
                               [](const void* in, void* inout, std::size_t count, void* c) {
                                 combine<Matrix>.function(in, inout, count, nullptr);
                                 static_cast<Counter*>(c)->elements += count;
                               },
                           .element_bytes = sizeof(Matrix),
                           .context = &counter};
    const Stream stream = comm.create_stream();
    const std::vector<Matrix> mine = terms<Matrix>(rank, 2000);
    std::vector<Matrix> send(2000), recv(2000);
    std::vector<Large> large(1);
    const auto graph = captured(comm, stream, [&] {
      comm.all_reduce(std::span<const Matrix>(send), std::span(recv), op, stream);
      comm.all_reduce(std::span<const Matrix>(send).subspan(0, 9), std::span(send).subspan(0, 9),
                      op, stream);
    });
    ASSERT_EQ(counter.elements, 0u);
    for (int replay = 0; replay < 3; ++replay) {
      send = mine;
      std::fill(recv.begin(), recv.end(), Matrix{});
      graph->launch(stream.native());
      comm.synchronize(stream);
      ASSERT_EQ(recv, result<Matrix>(comm.size(), 2000)) << replay;
      send.resize(9);
      ASSERT_EQ(send, result<Matrix>(comm.size(), 9)) << replay;
      send.resize(2000);
      if (comm.size() > 3) continue;
      comm.all_reduce(std::span<const Large>(large), std::span(large),
                      {.function = [](const void*, void*, std::size_t, void*) {},
                       .element_bytes = sizeof(Large)},
                      stream);
    }
    comm.synchronize(stream);
    EXPECT_EQ(counter.elements > 0, comm.size() > 1);
  });
}

/// One thread makes the call on each device; no call waits for a peer's.
TEST(HostOperation, TakesTurnsOnDevices) {
  DeviceGroup devices({0, 1, 2}, {.backend = BackendKind::host});
  for (const std::size_t count : {7, 3000, 700'000}) {
    std::vector<std::vector<Matrix>> values;
    for (int rank = 0; rank < devices.size(); ++rank) values.push_back(terms<Matrix>(rank, count));
    for (int rank = 0; rank < devices.size(); ++rank) {
      std::vector<Matrix>& x = values[static_cast<std::size_t>(rank)];
      devices.device(rank).all_reduce(std::span<const Matrix>(x), std::span(x), combine<Matrix>);
    }
    devices.synchronize();
    for (const std::vector<Matrix>& x : values) ASSERT_EQ(x, result<Matrix>(3, count));
  }
}

TEST(HostOperation, IsCheckedBeforeAnythingIsEnqueued) {
  run_ranks(2, on_host, [](Communicator& comm, int rank) {
    std::array<Matrix, 4> x{};
    const std::span<Matrix> two(x.data(), 2);
    const HostOperation& op = combine<Matrix>;
    const auto refuses = [&](const char* text, auto call,
                             ErrorCode code = ErrorCode::invalid_argument) {
      expect_throws(code, call, fmt::format("rank {}", rank), text);
    };
    const auto by = [&](const HostOperation& wrong) {
      return [&comm, &x, wrong] { comm.all_reduce(x.data(), x.data(), 1, wrong); };
    };
    refuses("all_reduce: rank", [&] { comm.all_reduce(nullptr, x.data(), 3, op); });
    refuses("send is null, with count 3", [&] { comm.all_reduce(nullptr, x.data(), 3, op); });
    refuses("recv is null, with count 3", [&] { comm.reduce_scatter(x.data(), nullptr, 3, op); });
    refuses("the operation's function is null", by({.function = nullptr, .element_bytes = 4}));
    refuses("the operation's elements have 0 bytes", by({.function = op.function}));
    refuses("alignment is 3, not a power of two",
            by({.function = op.function, .element_bytes = 6, .alignment = 3}));
    refuses("have 12 bytes, which is no multiple of their alignment, 8",
            by({.function = op.function, .element_bytes = 12, .alignment = 8}));
    refuses("is not aligned to the 4 bytes of the operation's elements",
            [&] { comm.all_reduce(x.data(), reinterpret_cast<char*>(x.data()) + 18, 1, op); });
    refuses("the buffers' elements have 16 bytes, the operation's 11",
            [&] { comm.all_reduce(two, two, combine<Text>); });
    refuses("overflows", [&] { comm.all_reduce(x.data(), x.data(), std::size_t{1} << 58, op); });
    refuses("overlap", [&] { comm.all_reduce(x.data(), x.data() + 1, 2, op); });
    refuses("root 2 is none of the ranks", [&] { comm.reduce(two, two, op, 2); });
    refuses("with blocks of 2 they must be 4 and 2", [&] { comm.reduce_scatter(two, two, op); });
    refuses("a group does not collect", in_a_group([&] { comm.all_reduce(two, two, op); }),
            ErrorCode::unsupported);
    // Nothing of this has broken anything.
    x.fill(Matrix::make(rank, 0));
    comm.all_reduce(two, two, op);
    comm.synchronize();
    EXPECT_EQ(x[0], result<Matrix>(2, 1)[0]);
  });
}

}  // namespace
}  // namespace plait::test
