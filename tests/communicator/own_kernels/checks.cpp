#include "communicator/own_kernels/checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include "backends/backend.hpp"
#include "communicator/own_kernels/kernels.hpp"
#include "plait/group.hpp"
#include "support/data.hpp"

namespace plait::test {
namespace {

std::vector<std::uint32_t> words(std::uint64_t seed, int rank, std::size_t count) {
  std::vector<std::uint32_t> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<std::uint32_t>(hash(seed, static_cast<std::uint64_t>(rank), i));
  return all;
}

/// A rank's memory for `Shift`.
class Shifted {
 public:
  Shifted(Communicator& comm, std::size_t count)
      : comm_(comm), count_(count), from_(comm, count), to_(comm, count) {}
  void fill(std::uint64_t seed, StreamRef stream = {}) {
    from_.set(words(seed, comm_.rank(), count_), stream);
  }
  void launch(LaunchShape shape, StreamRef stream = {}) {
    launch_shift(comm_, stream, shape, view_of(comm_, from_.buffer()), to_.data(), count_);
  }
  void expect(std::uint64_t seed, StreamRef stream = {}) const {
    const int next = (comm_.rank() + 1) % comm_.size();
    EXPECT_EQ(to_.get(stream), words(seed, next, count_)) << count_ << " words, seed " << seed;
  }

 private:
  Communicator& comm_;
  std::size_t count_;
  DeviceValues<std::uint32_t> from_, to_;
};

}  // namespace

unsigned threads_of_block(Communicator& comm, unsigned threads) {
  const auto& info = backend_of(comm).info();
  return info.backend == BackendKind::host ? info.facts.block_threads : threads;
}

void check_shift(Communicator& comm) {
  std::uint64_t seed = 0;
  for (const std::size_t count : {1, 3, 1000, 100003}) {
    Shifted words(comm, count);
    for (const LaunchShape shape : {LaunchShape{1, 1}, {1, 100}, {7, 64}, {64, 256}}) {
      words.fill(++seed);
      words.launch(shape);
      words.expect(seed);
    }
  }
}

void check_shift_in_graphs(Communicator& comm) {
  const Stream stream = comm.create_stream();
  Shifted words(comm, 5000);
  const auto graph = captured(comm, stream, [&] {
    words.launch({4, 64}, stream);
    words.launch({2, 32}, stream);
  });
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    words.fill(seed, stream);
    {
      const DeviceScope device(backend_of(comm));
      graph->launch(stream.native());
    }
    words.expect(seed, stream);
    words.fill(100 + seed, stream);
    words.launch({4, 64}, stream);  // between replays
    words.expect(100 + seed, stream);
  }
}

void check_shift_in_groups(Communicator& comm) {
  Shifted words(comm, 3000), others(comm, 500);
  DeviceValues<float> values(comm, 1000);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    words.fill(seed);
    others.fill(50 + seed);
    values.set(std::vector<float>(1000, static_cast<float>(comm.rank() + 1)));
    {
      Group group;
      words.launch({2, 64});
      comm.all_reduce(values.data(), values.data(), 1000, DataType::f32, ReduceOp::sum);
      others.launch({1, 64});
      group.end();
    }
    words.expect(seed);
    others.expect(50 + seed);
    const int n = comm.size(), sum = n * (n + 1) / 2;
    EXPECT_EQ(values.get(), std::vector<float>(1000, static_cast<float>(sum)));
  }
}

void check_all_to_all(Communicator& comm) {
  constexpr unsigned rounds = 2 * KernelSetting::slots + 3;
  const int n = comm.size(), rank = comm.rank();
  for (const LaunchShape shape : {LaunchShape{1, 32}, {5, 96}}) {
    const unsigned threads = threads_of_block(comm, shape.threads);
    DeviceValues<std::uint64_t> places(comm, shape.blocks * static_cast<std::size_t>(n)),
        sums(comm, shape.blocks * std::size_t{threads});
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      launch_all_to_all(comm, {}, shape, view_of(comm, places.buffer()), sums.data(), seed, rounds);
      std::uint64_t sum = 0;
      for (unsigned round = 0; round < rounds; ++round)
        for (int peer = 0; peer < n; ++peer)
          sum = 31 * sum + AllToAll::value(seed, round, peer, rank);
      EXPECT_EQ(sums.get(), std::vector<std::uint64_t>(shape.blocks * threads, sum));
    }
  }
}

void check_names(Communicator& comm) {
  DeviceValues<std::uint32_t> to(comm, 2);
  launch_one(comm, to.data());
  launch_two(comm, to.data() + 1);
  EXPECT_EQ(to.get(), (std::vector<std::uint32_t>{1, 2}));
}

void check_sums(Communicator& comm) {
  const int n = comm.size();
  std::uint64_t seed = 0;
  for (const LaunchShape shape : {LaunchShape{1, 1}, {1, 33}, {3, 64}, {20, 512}})
    for (const std::size_t count : {1, 700, 30000}) {
      const unsigned threads = threads_of_block(comm, shape.threads), blocks = shape.blocks;
      const auto term = [&](int rank, std::size_t i) {
        return hash(seed, static_cast<std::uint64_t>(rank), i);
      };
      ++seed;
      DeviceValues<std::uint64_t> values(comm, count), of_blocks(comm, 3 * std::size_t{blocks}),
          total(comm, 3);
      DeviceValues<double> of_threads(comm, std::size_t{blocks} * threads);
      std::vector<std::uint64_t> mine(count);
      for (std::size_t i = 0; i < count; ++i) mine[i] = term(comm.rank(), i);
      values.set(mine);
      launch_sums(comm, {}, shape, values.data(), count, of_blocks.data(), of_threads.data(),
                  total.data());
      // Each thread's share of each rank, and what they come to.
      std::vector<std::uint64_t> right(3 * std::size_t{blocks}), whole(3);
      for (int rank = 0; rank < n; ++rank)
        for (unsigned block = 0; block < blocks; ++block)
          for (unsigned thread = 0; thread < threads; ++thread) {
            std::uint64_t own[3] = {};
            for (std::size_t i = std::size_t{block} * threads + thread; i < count;
                 i += std::size_t{blocks} * threads) {
              own[0] += term(rank, i);
              own[1] += term(rank, i) >> 7;
              own[2] ^= term(rank, i);
            }
            for (std::size_t k = 0; k < 3; ++k) right[3 * block + k] += own[k], whole[k] += own[k];
          }
      EXPECT_EQ(of_blocks.get(), right);
      EXPECT_EQ(total.get(), whole);
      // Equal in all bits in all threads of a block, and on all ranks.
      const std::vector<double> rounded = of_threads.get();
      std::vector<double> all(rounded.size() * static_cast<std::size_t>(n));
      DeviceValues<double> gathered(comm, all.size());
      comm.all_gather(of_threads.data(), gathered.data(), rounded.size(), DataType::f64);
      all = gathered.get();
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint64_t>(all[i]),
                  std::bit_cast<std::uint64_t>(rounded[i % rounded.size() / threads * threads]));
      EXPECT_GT(rounded[0], 0);
    }
}

}  // namespace plait::test
