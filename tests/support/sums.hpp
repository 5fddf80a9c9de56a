// All-reduces in place of hashed values, compared with their sums.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/communicator.hpp"
#include "support/data.hpp"

namespace plait::test {

inline const CallOptions needs_symmetric{.algorithm = "twoshot"};

/// Rank `rank`'s value of element `i`.
inline float summand(std::uint64_t call, int rank, std::size_t i) {
  return static_cast<float>(hash(call, static_cast<std::uint64_t>(rank), i) % 1000);
}
inline void fill_summands(Communicator& comm, void* data, std::size_t count, std::uint64_t call,
                          StreamRef stream = {}) {
  std::vector<float> image(count);
  for (std::size_t i = 0; i < count; ++i) image[i] = summand(call, comm.rank(), i);
  comm.copy(data, image.data(), count * sizeof(float), stream);
  comm.synchronize(stream);
}
/// The number of elements that are not the sum of all ranks' summands.
inline std::size_t wrong_sums(Communicator& comm, const void* data, std::size_t count,
                              std::uint64_t call, StreamRef stream = {}) {
  std::vector<float> image(count);
  comm.copy(image.data(), data, count * sizeof(float), stream);
  comm.synchronize(stream);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += summand(call, rank, i);
    wrong += image[i] != sum ? 1 : 0;
  }
  return wrong;
}
inline void expect_sum(Communicator& comm, void* data, std::size_t count, std::uint64_t call,
                       const CallOptions& options = {}) {
  fill_summands(comm, data, count, call);
  comm.all_reduce(data, data, count, DataType::f32, ReduceOp::sum, {}, options);
  ASSERT_EQ(wrong_sums(comm, data, count, call), 0u) << "call " << call << ", rank " << comm.rank();
}

}  // namespace plait::test
