// A program linked with -ffast-math, which flushes subnormal numbers from its start on: sums of the
// small floats' codes are right all the same.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

#include "plait/plait.hpp"

namespace {

bool flushes() {
  volatile float least = std::numeric_limits<float>::min();
  return least / 2 == 0;
}

/// Twice the code, for codes below 8, which are subnormal: so it is the sum of two.
bool right(plait::Communicator& comm) {
  std::vector<std::uint8_t> codes;
  for (std::uint8_t code = 0; code < 8; ++code) codes.push_back(code);
  std::vector<std::uint8_t> sums(codes.size());
  comm.all_reduce(codes.data(), sums.data(), codes.size(), plait::DataType::f8e4m3,
                  plait::ReduceOp::sum);
  comm.synchronize();
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (sums[i] != 2 * codes[i]) return false;
  const std::vector<std::uint32_t> least = {1, 0x80000003u, 0x7fffffu};  // subnormal numbers of f32
  std::vector<std::uint32_t> doubled(least.size());
  comm.all_reduce(least.data(), doubled.data(), least.size(), plait::DataType::f32,
                  plait::ReduceOp::sum);
  comm.synchronize();
  return doubled == std::vector<std::uint32_t>{2, 0x80000006u, 0xfffffeu};
}

}  // namespace

int main() {
  if (!flushes()) {
    std::puts("SKIPPED: the linker's -ffast-math does not flush subnormal numbers here");
    return 77;
  }
  constexpr int ranks = 2;
  auto bootstraps = plait::make_thread_bootstraps(ranks);
  bool all_right[ranks] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      plait::CommunicatorOptions options;
      options.backend = plait::BackendKind::host;
      plait::Communicator comm = plait::Communicator::create(
          std::move(bootstraps[static_cast<std::size_t>(rank)]), options);
      all_right[rank] = right(comm);
    });
  for (std::thread& thread : threads) thread.join();
  if (all_right[0] && all_right[1] && flushes()) return 0;
  std::puts("wrong");
  return 1;
}
