// Collectives that end in a function of a program's own, by ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicator/own_kernels/checks.hpp"
#include "communicator/own_kernels/row_checks.hpp"
#include "communicator/own_kernels/row_kernels.hpp"
#include "fault/deadline.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

class Rows : public ForRanks {
 protected:
  static void run(const std::function<void(Communicator&, int)>& body) { run_ranks(ranks(), body); }
};
INSTANTIATE_TEST_SUITE_P(All, Rows, testing::Values(1, 2, 5), TestName());

TEST_P(Rows, GoToTheFunction) {
  run([](Communicator& comm, int) { check_rows(comm); });
}
TEST_P(Rows, ByShippedFunctions) {
  run([](Communicator& comm, int) { check_row_functions(comm); });
}
TEST_P(Rows, InBatches) {
  run([](Communicator& comm, int) { check_batches(comm); });
}
TEST_P(Rows, InGraphs) {
  run([](Communicator& comm, int) { check_rows_in_graphs(comm); });
}

TEST(BadRows, AreRefused) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, [](Communicator& comm, int) {
    DeviceValues<float> values(comm, 1 << 16);
    const auto call = [&](const float* from, std::size_t columns, RowsBy by = RowsBy::size) {
      return [&comm, &values, from, columns, by] {
        sum_rows(comm, {}, from, 2, columns, Keep<float>{values.data() + (1 << 15)}, by);
      };
    };
    expect_invalid(call(values.data(), 6), "all_reduce_rows: rank", "rows of 6 columns",
                   "a multiple of 4");
    expect_invalid(call(values.data(), 8196), "rows of 32784 bytes", "up to 32768");
    expect_invalid(call(values.data() + 1, 64), "not aligned to 16 bytes");
    const NormOfFloats norm{.residual = nullptr,
                            .weight = values.data() + 2,
                            .residual_out = nullptr,
                            .out = values.data()};
    expect_invalid([&] { sum_rows(comm, {}, values.data(), 2, 64, norm, RowsBy::size); },
                   "of the function is not aligned");
    expect_invalid(call(nullptr, 64), "the matrix is null");
    expect_invalid([&] { sum_rows(comm, {}, values.data(), 2, 64, NormOfFloats{}, RowsBy::size); },
                   "the function's `weight` is null");
    const DeviceValues<bf16> halves(comm, 1 << 10);
    expect_invalid(
        [&] {
          scatter_rows(comm, {}, halves.data(), 2, 64, Keep<bf16>{values.data()}, RowsBy::two_shot);
        },
        "reduce_scatter_rows: rank", "RowsBy::two_shot, which is for all_reduce_rows only");
    call(values.data(), 0)();  // nothing to do
    call(values.data(), 64)();
    comm.synchronize();
  });
}

TEST(RowsWithoutMemory, AreRefused) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2,
            [](Communicator& comm, int) {
              DeviceValues<float> values(comm, 1 << 10);
              expect_throws(
                  ErrorCode::unsupported,
                  [&] {
                    sum_rows(comm, {}, values.data(), 2, 64, Keep<float>{values.data() + 512},
                             RowsBy::size);
                  },
                  "all_reduce_rows: rank", "leaves no memory for rows");
            },
            {.scratch_bytes = std::size_t{2} << 20});
}

/// Rows that need as many blocks and threads.
TEST(RowsThatDiffer, AreNamed) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, impatient(), [](Communicator& comm, int rank) {
    DeviceValues<float> values(comm, 1 << 10);
    const std::string text = message_of(ErrorCode::mismatch, [&] {
      sum_rows(comm, {}, values.data(), 1, rank == 0 ? 64 : 128, Keep<float>{values.data() + 512},
               RowsBy::one_shot);
      comm.barrier();
      comm.synchronize();
    });
    EXPECT_THAT(text, HasSubstr("all_reduce_rows<plait::test::Keep<float>, float, "));
    EXPECT_THAT(text, HasSubstr("1 rows of 64 columns"));
    EXPECT_THAT(text, HasSubstr("1 rows of 128 columns"));
  });
}

class MissingRows : public testing::TestWithParam<RowsBy> {};
INSTANTIATE_TEST_SUITE_P(All, MissingRows,
                         testing::Values(RowsBy::packets, RowsBy::one_shot, RowsBy::two_shot));

TEST_P(MissingRows, AreNamed) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, impatient(), [](Communicator& comm, int rank) {
    DeviceValues<float> values(comm, 1 << 10);
    if (rank == 1) return stay(comm);
    sum_rows(comm, {}, values.data(), 1, 64, Keep<float>{values.data() + 512}, GetParam());
    const std::string text = message_of(ErrorCode::timeout, [&] { comm.synchronize(); });
    EXPECT_THAT(text, HasSubstr("(own_rows)"));
    EXPECT_THAT(text, HasSubstr("rank 0 waited"));
    EXPECT_THAT(text, HasSubstr("for rank 1, in block 0 for its term of a row"));
    EXPECT_THAT(text, HasSubstr("all_reduce_rows<plait::test::Keep<float>, float, "));
  });
}

}  // namespace
}  // namespace plait::test
