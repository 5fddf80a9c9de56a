// Communicators of processes whose scratch memory grows, and ranks that have no more memory. Where
// there is no GPU, the host target stands in for one.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "plait/error.hpp"
#include "plait/mpi.hpp"
#include "support/data.hpp"
#include "support/growing_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {

inline constexpr std::size_t mega = std::size_t{1} << 20;
inline int world_rank = 0, world_size = 1;

class Growth : public testing::Test {
 protected:
  void SetUp() override {
    if (world_size == 1) GTEST_SKIP() << "needs two ranks";
  }
};

inline CommunicatorOptions growing(std::chrono::nanoseconds timeout = patience) {
  CommunicatorOptions options;
  options.backend = BackendKind::cuda;
  options.timeout = timeout;
  return options;
}
inline Communicator make(const CommunicatorOptions& options = growing()) {
  return make_communicator(MPI_COMM_WORLD, options);
}
inline std::size_t committed(const Communicator& comm) {
  return comm.statistics().scratch_bytes_committed;
}

/// Expects the text of all ranks to be the same, and returns it.
inline std::string same_everywhere(const std::string& text) {
  std::vector<char> mine(2000), first(2000);
  text.copy(mine.data(), mine.size() - 1);
  first = mine;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_STREQ(first.data(), mine.data());
  return text;
}

/// A call that is too large for no algorithm, and its result.
inline void expect_sum(Communicator& comm, const std::string& algorithm, std::size_t count = 1000,
                       StreamRef stream = {}) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = element<float>(1, comm.rank(), i, ReduceOp::sum);
  comm.all_reduce(x.data(), x.data(), count, DataType::f32, ReduceOp::sum, stream,
                  {.algorithm = algorithm, .threads = 1});
  comm.synchronize(stream);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(x[i], expected<float>(1, comm.size(), i, ReduceOp::sum, 1)) << algorithm << ", " << i;
}

/// Nothing on this rank while it lives.
struct NoMemory {
  explicit NoMemory(bool here) {
    if (here)
      GrowingBackend::before_reserve = [](std::size_t bytes) {
        throw Error(ErrorCode::out_of_memory, fmt::format("the test has no {} bytes", bytes));
      };
  }
  ~NoMemory() { GrowingBackend::before_reserve = nullptr; }
};

}  // namespace plait::test
