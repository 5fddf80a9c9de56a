// Sums of 8 terms whose bits do not depend on the message, nor on the number of ranks:
//   PLAIT_ALGO=reproducible_tree mpirun -n 4 build-host/bin/same_bits
// 1, 2, 4 and 8 ranks print the same hash. Without PLAIT_ALGO they need not. An argument is the
// number of lanes, blocks of the launch that each move a stripe of the message: same_bits 7
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <plait/plait.hpp>
#include <vector>

namespace {

constexpr int terms = 8;
constexpr std::size_t period = 251;  // element i has the terms of element i % period

/// Of either sign and many magnitudes, so that every order of adding has another sum.
float term(int number, std::size_t i) {
  std::uint32_t h = std::uint32_t(i) * 2654435761u + std::uint32_t(number) * 2246822519u;
  h = (h ^ (h >> 15)) * 3266489917u;
  return std::ldexp(float(h >> 8) - float(1 << 23), int(h % 24));
}
/// The tree over some neighbouring terms: the sum of its halves.
float sum(int first, int number, std::size_t i) {
  if (number == 1) return term(first, i);
  return sum(first, number / 2, i) + sum(first + number / 2, number / 2, i);
}

}  // namespace

int main(int argc, char** argv) try {
  const unsigned lanes = argc > 1 ? unsigned(std::atoi(argv[1])) : 0;  // 0: the library's choice
  plait::Communicator comm = plait::make_world_communicator();
  const int own = terms / comm.size();
  if (own * comm.size() != terms) {
    std::cerr << "1, 2, 4 or 8 ranks\n";
    return 2;
  }
  plait::Stream stream = comm.create_stream();
  const std::size_t most = 1'000'000;
  plait::Buffer<float> from = comm.allocate<float>(most), to = comm.allocate<float>(most + 1);

  std::uint32_t results[period] = {};
  for (const std::size_t count : {period, std::size_t{9000}, most})
    for (float* const result : {from.data(), to.data(), to.data() + 1}) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = i < period ? sum(comm.rank() * own, own, i) : values[i - period];
      comm.copy(from.data(), values.data(), count * sizeof(float), stream);
      comm.all_reduce(from.data(), result, count, plait::DataType::f32, plait::ReduceOp::sum,
                      stream, {.blocks = lanes});
      comm.copy(values.data(), result, count * sizeof(float), stream);
      comm.synchronize(stream);
      for (std::size_t i = 0; i < count; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(values[i]);
        std::uint32_t& first = results[i % period];
        if (first == 0) first = bits;
        if (bits == first) continue;
        std::printf("element %zu of %zu is %08x, and in another message %08x\n", i, count, bits,
                    first);
        return 1;
      }
    }
  std::uint32_t hash = 0;
  for (const std::uint32_t bits : results) hash = (hash ^ bits) * 0x01000193u;
  std::printf("rank %d of %d: %08x\n", comm.rank(), comm.size(), hash);
} catch (const plait::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
