// Runs each row of a page: the lines of the other library, then Plait's in C++ and in C, with equal
// values. Afterwards the same must be there.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "columns.hpp"

namespace plait::test {
namespace {

double term(int rank, int i) { return 100.0 * (rank + 1) + i; }

/// What rows begin with. Rank a sends a + 2 b + 1 elements to rank b where counts differ.
page_row fresh(const char* of_row, void* stream) {
  const std::string_view name = of_row;
  page_row row{};
  row.name = of_row;
  row.frees_a_part = name.ends_with("_free") || name.ends_with("CommDestroy") ? 1 : 0;
  row.mpi = MPI_COMM_WORLD;
  row.stream = stream;
  row.size = 1;
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) {
    MPI_Comm_rank(row.mpi, &row.rank);
    MPI_Comm_size(row.mpi, &row.size);
  }
  row.root = ranks - 1;
  row.left = (row.rank + row.size - 1) % row.size, row.right = (row.rank + 1) % row.size;
  row.color = 0, row.key = -row.rank;  // the other order
  row.n = count_of_block;
  row.factor = 0.5;
  for (int i = 0; i < elements; ++i) {
    row.send[i] = term(row.rank, i);
    row.x[i] = term(row.rank, i) + 0.5;
    row.recv[i] = -1;
  }
  std::size_t send_start = 0, recv_start = 0;
  for (std::size_t peer = 0; peer < static_cast<std::size_t>(row.size); ++peer) {
    const auto rank = static_cast<std::size_t>(row.rank);
    row.send_counts[peer] = rank + 2 * peer + 1, row.send_starts[peer] = send_start;
    row.recv_counts[peer] = peer + 2 * rank + 1, row.recv_starts[peer] = recv_start;
    row.counts[peer] = 2 + peer, row.starts[peer] = 1 + 4 * peer;
    send_start += row.send_counts[peer], recv_start += row.recv_counts[peer];
  }
  row.own_rank = row.rank;
  if (name.ends_with("Comm_rank") || name.ends_with("UserRank")) row.rank = -1;
  if (name.ends_with("Comm_size") || name.ends_with("CommCount")) row.size = -1;
  row.comm_rank = row.comm_size = -1;
  row.part_rank = row.part_size = row.frees_a_part != 0 ? 0 : -1;
  return row;
}

/// On all ranks.
bool unchanged(const page_row& now, const page_row& before) {
  bool same = now.rank == before.rank && now.size == before.size &&
              now.part_rank == before.part_rank && now.part_size == before.part_size &&
              std::strcmp(now.error, before.error) == 0 &&
              std::memcmp(now.send, before.send, sizeof now.send) == 0 &&
              std::memcmp(now.recv, before.recv, sizeof now.recv) == 0 &&
              std::memcmp(now.x, before.x, sizeof now.x) == 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_CXX_BOOL, MPI_LAND, MPI_COMM_WORLD);
  return same;
}

std::vector<double> elements_of(const double* array) { return {array, array + elements}; }

void expect_equal(const page_row& is, const page_row& expected) {
  EXPECT_EQ(is.rank, expected.rank);
  EXPECT_EQ(is.size, expected.size);
  EXPECT_EQ(is.comm_rank, expected.comm_rank);
  EXPECT_EQ(is.comm_size, expected.comm_size);
  EXPECT_EQ(is.part_rank, expected.part_rank);
  EXPECT_EQ(is.part_size, expected.part_size);
  EXPECT_STREQ(is.error, expected.error);
  EXPECT_EQ(elements_of(is.send), elements_of(expected.send)) << "in send";
  EXPECT_EQ(elements_of(is.recv), elements_of(expected.recv)) << "in recv";
  EXPECT_EQ(elements_of(is.x), elements_of(expected.x)) << "in x";
}

const row_function* find(const row_function* column, std::string_view name) {
  while (column->name != nullptr && column->name != name) ++column;
  return column->name == nullptr ? nullptr : column;
}

std::optional<Communicator> own;
const Stream* stream_of_rows = nullptr;

constexpr const char* names[] = {
#define LISTED(NAME) #NAME,
#include "names.inc"
};

/// What the row leaves behind in the other library; for scans, which NCCL lacks, what it leaves
/// behind in C++ (the page for MPI compares that with MPI).
page_row expected_of(const char* name, void* stream) {
  const row_function* left = find(left_column, name);
  if (left == nullptr && std::string_view(name).ends_with("scan")) left = find(cpp_column, name);
  page_row expected = fresh(name, stream);
  const bool runs = left != nullptr && !ends_process(name);
  if (runs) left->run(&expected);
  if (left == nullptr || ends_process(name) || leaves_nothing(name)) {
    const std::string error = runs ? expected.error : ends_process(name) ? "aborted" : "";
    expected = fresh(name, stream);
    expected.comm_rank = expected.rank, expected.comm_size = expected.size;
    std::snprintf(expected.error, sizeof expected.error, "%s", error.c_str());
  } else {
    EXPECT_FALSE(unchanged(expected, fresh(name, stream))) << "shows nothing";
  }
  return expected;
}

TEST(Page, EachRowDoesTheSameInAllColumns) {
  begin_left();
  std::optional<Stream> stream;
  for (const char* name : names) {
    SCOPED_TRACE(name);
    void* const native = stream ? stream->native() : nullptr;
    const page_row expected = expected_of(name, native);
    int columns = 0;
    for (const row_function* column : {cpp_column, c_column}) {
      const row_function* function = find(column, name);
      if (function == nullptr) continue;
      SCOPED_TRACE(column == cpp_column ? "C++" : "C");
      MPI_Barrier(MPI_COMM_WORLD);
      page_row row = fresh(name, native);
      function->run(&row);
      expect_equal(row, expected);
      ++columns;
    }
    EXPECT_GE(columns, 1);
    ASSERT_EQ(fresh("", nullptr).size, ranks);
    if (!stream) {  // the first row may be what initialises MPI
      own = make_communicator(MPI_COMM_WORLD);
      stream = own->create_stream();
      stream_of_rows = &*stream;
    }
  }
  check_constants(fresh("", nullptr), *own);
  stream_of_rows = nullptr;
  own.reset();
}

}  // namespace

void wait_for_stream() {
  if (own) own->synchronize(*stream_of_rows);
}

}  // namespace plait::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
