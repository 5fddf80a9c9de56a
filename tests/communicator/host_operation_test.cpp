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

#include "communicator/host_reductions/host_reducer.hpp"
#include "core/signal_mask.hpp"
#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// 2 x 2 matrices modulo a prime. Their product does not commute.
struct Matrix {
  std::array<std::uint32_t, 4> at;
  friend bool operator==(const Matrix&, const Matrix&) = default;
};
Matrix times(const Matrix& a, const Matrix& b) {
  const auto dot = [&](std::size_t row, std::size_t column) {
    return static_cast<std::uint32_t>((std::uint64_t{a.at[2 * row]} * b.at[column] +
                                       std::uint64_t{a.at[2 * row + 1]} * b.at[2 + column]) %
                                      65521);
  };
  return {{dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)}};
}

/// Texts of up to 10 letters. Of their concatenation the first 10 count. The size is odd.
struct Text {
  std::uint8_t length;
  std::array<char, 10> letters;
  friend bool operator==(const Text&, const Text&) = default;
};
Text join(const Text& a, const Text& b) {
  Text both = a;
  for (std::size_t i = 0; i < b.length && both.length < both.letters.size(); ++i)
    both.letters.at(both.length++) = b.letters.at(i);
  return both;
}

template <class T>
struct Sample;
template <>
struct Sample<Matrix> {
  static constexpr auto op =
      HostOperation::of<Matrix>([](const Matrix& a, const Matrix& b) { return times(a, b); });
  static Matrix combined(const Matrix& a, const Matrix& b) { return times(a, b); }
  static Matrix make(int rank, std::size_t i) {
    Matrix matrix{};
    for (std::size_t k = 0; k < 4; ++k)
      matrix.at.at(k) =
          static_cast<std::uint32_t>(hash(k, static_cast<std::uint64_t>(rank), i) % 65521);
    return matrix;
  }
};
template <>
struct Sample<Text> {
  static constexpr auto op =
      HostOperation::of<Text>([](const Text& a, const Text& b) { return join(a, b); });
  static Text combined(const Text& a, const Text& b) { return join(a, b); }
  static Text make(int rank, std::size_t i) {
    Text text{.length = static_cast<std::uint8_t>(1 + i % 2), .letters = {}};
    for (std::size_t k = 0; k < text.length; ++k)
      text.letters.at(k) =
          static_cast<char>('a' + (static_cast<std::size_t>(rank) * 3 + i + k) % 26);
    return text;
  }
};

template <class T>
std::vector<T> terms(int rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = Sample<T>::make(rank, i);
  return all;
}
template <class T>
std::vector<T> result(int ranks, std::size_t count) {
  std::vector<T> all = terms<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i)
      all[i] = Sample<T>::combined(all[i], Sample<T>::make(rank, i));
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

template <class T>
void check(Communicator& comm, std::size_t count, bool in_place, bool symmetric) {
  const auto ranks = static_cast<std::size_t>(comm.size()),
             rank = static_cast<std::size_t>(comm.rank());
  const auto where = fmt::format("rank {} of {}, count {}{}{}", rank, ranks, count,
                                 in_place ? ", in place" : "", symmetric ? ", symmetric" : "");
  const HostOperation& op = Sample<T>::op;
  Memory<T> memory(comm, count * ranks, symmetric);
  const auto all = memory.send.subspan(0, count), to = memory.recv.subspan(0, count);
  const std::vector<T> mine = terms<T>(comm.rank(), count * ranks),
                       wanted = result<T>(comm.size(), count * ranks);
  const auto fill = [&] {
    std::copy(mine.begin(), mine.end(), memory.send.begin());
    std::fill(memory.recv.begin(), memory.recv.end(), T{});
  };
  const auto expect = [&](const char* what, std::span<const T> got, std::size_t from) {
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(from);
    ASSERT_TRUE(std::equal(got.begin(), got.end(), first)) << what << ": " << where;
  };
  fill();
  comm.all_reduce(all, in_place ? all : to, op);
  comm.synchronize();
  expect("all_reduce", in_place ? all : to, 0);

  for (const int root : {0, comm.size() - 1}) {
    fill();
    comm.reduce(all, in_place ? all : to, op, root);
    comm.synchronize();
    if (comm.rank() == root) expect("reduce", in_place ? all : to, 0);
    else EXPECT_TRUE(std::equal(all.begin(), all.end(), mine.begin())) << where;
  }

  const auto expect_first = [&](const char* what, int terms, std::span<const T> got) {
    const std::vector<T> scanned = terms == 0 ? std::vector<T>(count) : result<T>(terms, count);
    if (terms == 0 && in_place) return;  // rank 0 of an exclusive scan has no result
    ASSERT_TRUE(std::equal(got.begin(), got.end(), scanned.begin())) << what << ": " << where;
  };
  fill();
  comm.scan(all, in_place ? all : to, op);
  comm.synchronize();
  expect_first("scan", comm.rank() + 1, in_place ? all : to);
  fill();
  comm.exscan(all, in_place ? all : to, op);
  comm.synchronize();
  expect_first("exscan", comm.rank(), in_place ? all : to);

  fill();
  const auto block = in_place ? memory.send.subspan(rank * count, count) : to;
  comm.reduce_scatter(memory.send, block, op);
  comm.synchronize();
  expect("reduce_scatter", block, rank * count);
  if (in_place)
    std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(rank * count), count, block.begin());
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), memory.send.begin())) << "send: " << where;
}

class HostOperations : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, HostOperations, testing::Range(1, 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// Exchanged whole, in parts with a rest, and in several rounds.
TEST_P(HostOperations, CombineInRankOrder) {
  run_ranks(
      GetParam(),
      [](Communicator& comm, int) {
        for (const std::size_t count : {0, 1, 3, 7, 1001, 1490})
          for (const bool in_place : {false, true}) {
            check<Matrix>(comm, count, in_place, count % 2 == 0);
            check<Text>(comm, count, in_place, count % 2 != 0);
            if (testing::Test::HasFatalFailure()) return;
          }
      },
      on_host);
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
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
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
      },
      on_host);
}

class LargeHostOperations : public HostOperations {};
INSTANTIATE_TEST_SUITE_P(All, LargeHostOperations,
                         testing::ValuesIn(under_tsan ? std::vector{3} : std::vector{1, 2, 3, 5}),
                         [](const auto& test) { return fmt::format("n{}", test.param); });
TEST_P(LargeHostOperations, TakeMessagesBeyondTheWorkMemory) {
  run_ranks(
      GetParam(),
      [](Communicator& comm, int) {
        check<Matrix>(comm, (std::size_t{9} << 19) / sizeof(Matrix) + 5, false, false);
      },
      on_host);
}

/// The work memory grows for large elements.
struct Large {
  std::array<std::uint32_t, (3 << 20) / 4> words;
};
TEST(HostOperation, TakesLargeElements) {
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
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
      },
      on_host);
}

/// Calls on several streams, without a wait between them, share the work memory.
TEST_P(HostOperations, FollowEachOtherOnAnyStream) {
  run_ranks(
      GetParam(),
      [](Communicator& comm, int rank) {
        constexpr std::size_t calls = 60;
        const std::array<Stream, 2> streams{comm.create_stream(), comm.create_stream()};
        const std::array<std::size_t, 3> counts{5, 900, 1700};
        std::vector<std::vector<Matrix>> values;
        for (std::size_t i = 0; i < calls; ++i)
          values.push_back(terms<Matrix>(rank, counts[i % 3]));
        for (std::size_t i = 0; i < calls; ++i)
          comm.all_reduce(std::span<const Matrix>(values[i]), std::span(values[i]),
                          Sample<Matrix>::op, streams.at(i % 2));
        for (const Stream& stream : streams) comm.synchronize(stream);
        for (std::size_t i = 0; i < calls; ++i)
          ASSERT_EQ(values[i], result<Matrix>(comm.size(), counts[i % 3]))
              << i << ", rank " << rank;
      },
      on_host);
}

/// A graph keeps the function, its context and the memory, also after larger elements have come.
TEST_P(HostOperations, AreCaptured) {
  run_ranks(
      GetParam(),
      [](Communicator& comm, int rank) {
        struct Counter {
          std::atomic<std::size_t> elements{0};
        } counter;
        const HostOperation op{.function =
                                   [](const void* in, void* inout, std::size_t count, void* c) {
                                     Sample<Matrix>::op.function(in, inout, count, nullptr);
                                     static_cast<Counter*>(c)->elements += count;
                                   },
                               .element_bytes = sizeof(Matrix),
                               .context = &counter};
        const Stream stream = comm.create_stream();
        Backend& backend = backend_of(comm);
        const std::vector<Matrix> mine = terms<Matrix>(rank, 2000);
        std::vector<Matrix> send(2000), recv(2000);
        std::vector<Large> large(1);
        const HostOperation keep{.function = [](const void*, void*, std::size_t, void*) {},
                                 .element_bytes = sizeof(Large)};
        backend.begin_capture(stream.native());
        comm.all_reduce(std::span<const Matrix>(send), std::span(recv), op, stream);
        comm.all_reduce(std::span<const Matrix>(send).subspan(0, 9), std::span(send).subspan(0, 9),
                        op, stream);
        const auto graph = backend.end_capture(stream.native());
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
          comm.all_reduce(std::span<const Large>(large), std::span(large), keep, stream);
        }
        comm.synchronize(stream);
        EXPECT_EQ(counter.elements > 0, comm.size() > 1);
      },
      on_host);
}

/// One thread makes the call on each device; no call waits for a peer's.
TEST(HostOperation, TakesTurnsOnDevices) {
  DeviceGroup devices({0, 1, 2}, {.backend = BackendKind::host});
  for (const std::size_t count : {7, 3000, 700'000}) {
    std::vector<std::vector<Matrix>> values;
    for (int rank = 0; rank < devices.size(); ++rank) values.push_back(terms<Matrix>(rank, count));
    for (int rank = 0; rank < devices.size(); ++rank) {
      std::vector<Matrix>& x = values[static_cast<std::size_t>(rank)];
      devices.device(rank).all_reduce(std::span<const Matrix>(x), std::span(x), Sample<Matrix>::op);
    }
    devices.synchronize();
    for (const std::vector<Matrix>& x : values) ASSERT_EQ(x, result<Matrix>(3, count));
  }
}

TEST(HostOperation, IsCheckedBeforeAnythingIsEnqueued) {
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        std::array<Matrix, 4> x{};
        const std::span<Matrix> two(x.data(), 2);
        const HostOperation& op = Sample<Matrix>::op;
        const auto refuses = [&](ErrorCode code, const char* text, auto call) {
          expect_error(error_of(call), code,
                       AllOf(HasSubstr(fmt::format("rank {}", rank)), HasSubstr(text)));
        };
        const auto invalid = ErrorCode::invalid_argument;
        refuses(invalid, "all_reduce: rank", [&] { comm.all_reduce(nullptr, x.data(), 3, op); });
        refuses(invalid, "send is null, with count 3",
                [&] { comm.all_reduce(nullptr, x.data(), 3, op); });
        refuses(invalid, "recv is null, with count 3",
                [&] { comm.reduce_scatter(x.data(), nullptr, 3, op); });
        refuses(invalid, "the operation's function is null", [&] {
          comm.all_reduce(x.data(), x.data(), 1, {.function = nullptr, .element_bytes = 4});
        });
        refuses(invalid, "the operation's elements have 0 bytes",
                [&] { comm.all_reduce(x.data(), x.data(), 1, {.function = op.function}); });
        refuses(invalid, "alignment is 3, not a power of two", [&] {
          comm.all_reduce(x.data(), x.data(), 1,
                          {.function = op.function, .element_bytes = 6, .alignment = 3});
        });
        refuses(invalid, "have 12 bytes, which is no multiple of their alignment, 8", [&] {
          comm.all_reduce(x.data(), x.data(), 1,
                          {.function = op.function, .element_bytes = 12, .alignment = 8});
        });
        refuses(invalid, "is not aligned to the 4 bytes of the operation's elements",
                [&] { comm.all_reduce(x.data(), reinterpret_cast<char*>(x.data()) + 18, 1, op); });
        refuses(invalid, "the buffers' elements have 16 bytes, the operation's 11",
                [&] { comm.all_reduce(two, two, Sample<Text>::op); });
        refuses(invalid, "overflows",
                [&] { comm.all_reduce(x.data(), x.data(), std::size_t{1} << 58, op); });
        refuses(invalid, "overlap", [&] { comm.all_reduce(x.data(), x.data() + 1, 2, op); });
        refuses(invalid, "root 2 is none of the ranks", [&] { comm.reduce(two, two, op, 2); });
        refuses(invalid, "with blocks of 2 they must be 4 and 2",
                [&] { comm.reduce_scatter(two, two, op); });
        refuses(ErrorCode::unsupported, "a group does not collect", [&] {
          Group group;
          comm.all_reduce(two, two, op);
          group.end();
        });
        // Nothing of this has broken anything.
        x.fill(Sample<Matrix>::make(rank, 0));
        comm.all_reduce(two, two, op);
        comm.synchronize();
        EXPECT_EQ(x[0], result<Matrix>(2, 1)[0]);
      },
      on_host);
}

TEST(HostOperation, IsRefusedOnGpus) {
  const Matrix matrix{};
  Matrix to{};
  for (const BackendKind gpu : {BackendKind::cuda, BackendKind::hip})
    expect_error(error_of([&] {
                   check_host_operation(
                       {Collective::all_reduce, &matrix, &to, 1, Sample<Matrix>::op, 0}, 0, gpu, 1,
                       2);
                 }),
                 ErrorCode::unsupported,
                 AllOf(HasSubstr("all_reduce: rank 1: " + std::string(name_of(gpu))),
                       HasSubstr("docs/adding-an-algorithm.md")));
}

TEST(HostOperation, IsComparedWithPlaitCheck) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        std::array<std::uint32_t, 12> x{};
        const auto op = [](std::size_t bytes) {
          return HostOperation{.function = [](const void*, void*, std::size_t, void*) {},
                               .element_bytes = bytes};
        };
        // Of equal size together.
        expect_error(error_of([&] {
                       if (rank == 0) comm.all_reduce(x.data(), x.data(), 6, op(8));
                       else comm.all_reduce(x.data(), x.data(), 4, op(12));
                     }),
                     ErrorCode::mismatch,
                     AllOf(HasSubstr("rank 1 calls all_reduce of 4 elements of 12 bytes"),
                           HasSubstr("rank 0 calls all_reduce of 6 elements of 8 bytes")));
        expect_error(error_of([&] { comm.reduce(x.data(), x.data(), 6, op(8), rank); }),
                     ErrorCode::mismatch, HasSubstr("root 1"));
        expect_error(
            error_of([&] { comm.all_reduce(x.data(), x.data(), 6, op(rank == 1 ? 0 : 8)); }),
            ErrorCode::invalid_argument, HasSubstr("rank 1: the operation's elements"));
        comm.all_reduce(x.data(), x.data(), 6, op(8));
        comm.synchronize();
      },
      on_host);
}

/// The other ranks may have begun when a rank finds that it has no memory.
TEST(HostOperation, BreaksTheCommunicatorIfThereIsNoMemory) {
  if (under_tsan) GTEST_SKIP() << "a sanitizer ends the program instead";
  run_ranks(
      2,
      [](Communicator& comm, int) {
        const HostOperation op{.function = [](const void*, void*, std::size_t, void*) {},
                               .element_bytes = std::size_t{1} << 50};
        std::byte x{};
        const auto error = error_of([&] { comm.all_reduce(&x, &x, 1, op); });
        EXPECT_TRUE(error);
        if (!error) return;
        EXPECT_THAT(error->what(),
                    HasSubstr("there is no memory for elements of 1125899906842624"));
        EXPECT_TRUE(heard(comm, patience));
      },
      on_host);
}

/// Terms of a rank that did not come are no terms: the function must not see them.
TEST(HostOperation, IsNotCalledWithoutTerms) {
  CommunicatorOptions options = on_host;
  options.timeout = std::chrono::milliseconds(300);
  std::atomic<int> seen = 0;
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        const HostOperation op{
            .function = [](const void*, void*, std::size_t,
                           void* calls) { ++*static_cast<std::atomic<int>*>(calls); },
            .element_bytes = 24,
            .context = &seen};
        std::vector<std::byte> x(24 * 5000);
        if (rank == 0)
          for (const std::size_t count : {1, 5000}) comm.all_reduce(x.data(), x.data(), count, op);
        EXPECT_TRUE(heard(comm, patience));
        EXPECT_TRUE(error_of([&] { comm.synchronize(); }));
      },
      options);
  EXPECT_EQ(seen, 0);
}

}  // namespace
}  // namespace plait::test
