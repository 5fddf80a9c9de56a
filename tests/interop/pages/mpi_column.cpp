// The column of MPI, whose results Plait's lines must have.
#include <mpi.h>

#include <string_view>

#include "columns.hpp"

namespace plait::test {
namespace {

/// As many as MPI wants, and as ints.
struct Counts {
  explicit Counts(const std::size_t (&counts)[ranks]) {
    for (int i = 0; i < ranks; ++i) numbers[i] = static_cast<int>(counts[i]);
  }
  int numbers[ranks];
};

/// What the lines name.
struct Names {
  explicit Names(page_row& row) : of(row) {}

  page_row& of;
  MPI_Comm mpi = of.mpi, part = MPI_COMM_NULL;
  int &rank = of.rank, &size = of.size;
  const int root = of.root, left = of.left, right = of.right, color = of.color, key = of.key;
  const int n = static_cast<int>(of.n), tag = 7;
  double *send = of.send, *recv = of.recv, *x = of.x;
  const Counts all[6] = {Counts(of.send_counts), Counts(of.send_starts), Counts(of.recv_counts),
                         Counts(of.recv_starts), Counts(of.counts),      Counts(of.starts)};
  const int *send_counts = all[0].numbers, *send_starts = all[1].numbers;
  const int *recv_counts = all[2].numbers, *recv_starts = all[3].numbers;
  const int *counts = all[4].numbers, *starts = all[5].numbers;
  MPI_Request request = MPI_REQUEST_NULL, requests[2]{};
  MPI_Win window = MPI_WIN_NULL;
  void* memory = nullptr;

  void begin() {
    if (of.frees_a_part != 0) MPI_Comm_dup(mpi, &part);
  }
  void end() {
    MPI_Comm_rank(mpi, &of.comm_rank);
    MPI_Comm_size(mpi, &of.comm_size);
    of.part_rank = of.part_size = -1;
    if (part != MPI_COMM_NULL) {
      MPI_Comm_rank(part, &of.part_rank);
      MPI_Comm_size(part, &of.part_size);
      MPI_Comm_free(&part);
    }
    if (window != MPI_WIN_NULL) MPI_Win_free(&window);
  }
};

#define BEGIN_ROW(NAME)                               \
  struct row_##NAME : Names {                         \
    explicit row_##NAME(page_row& row) : Names(row) { \
      begin();
#define BEGIN_LINES
#define END_LINES
#define END_ROW \
  end();        \
  }             \
  }             \
  ;
#include "left.inc"

}  // namespace

void begin_left() {}  // the first row is MPI_Init

bool leaves_nothing(std::string_view name) {
  return name == "MPI_Init" || name == "MPI_Comm_split_too" || name == "MPI_Barrier" ||
         name == "MPI_Win_allocate";
}
bool ends_process(std::string_view name) { return name == "MPI_Abort"; }

void check_constants(const page_row& row, Communicator& comm) {
  using enum DataType;
  using enum ReduceOp;
  const auto reduce = [&row](MPI_Datatype type, MPI_Op op) {
    return [=, mpi = row.mpi](const void* in, void* out, std::size_t count) {
      MPI_Allreduce(in, out, static_cast<int>(count), type, op, mpi);
    };
  };
#define TYPE(LEFT, CPP, C)                                              \
  check_reduction(comm, CPP, C, sum, PLAIT_SUM, reduce(LEFT, MPI_SUM)); \
  check_reduction(comm, CPP, C, max, PLAIT_MAX, reduce(LEFT, MPI_MAX));
#define OPERATION(LEFT, CPP, C) \
  check_reduction(comm, i32, PLAIT_I32, CPP, C, reduce(MPI_INT32_T, LEFT));
#include "constants.inc"
}

}  // namespace plait::test

#define LISTED(NAME) {#NAME, [](page_row* row) { plait::test::row_##NAME{*row}; }},
const row_function left_column[] = {
#include "left_names.inc"
    {nullptr, nullptr}};
