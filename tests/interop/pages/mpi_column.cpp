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
  const auto check_type = [&](MPI_Datatype left, DataType type, plait_data_type in_c) {
    struct Operation {
      ReduceOp op;
      plait_reduce_op in_c;
      MPI_Op left;
    };
    for (const auto& [op, op_in_c, of_mpi] : {Operation{sum, PLAIT_SUM, MPI_SUM},
                                              {max, PLAIT_MAX, MPI_MAX},
                                              {lor, PLAIT_LOR, MPI_LOR},
                                              {minloc, PLAIT_MINLOC, MPI_MINLOC}})
      if (is_reduced(type, op))
        check_reduction(comm, type, in_c, op, op_in_c, reduce(left, of_mpi));
  };
#define TYPE(LEFT, CPP, C) check_type(LEFT, CPP, C);
#define OPERATION(LEFT, CPP, C)                                               \
  if (is_reduced(i32, CPP))                                                   \
    check_reduction(comm, i32, PLAIT_I32, CPP, C, reduce(MPI_INT32_T, LEFT)); \
  else check_reduction(comm, i32_i32, PLAIT_I32_I32, CPP, C, reduce(MPI_2INT, LEFT));
#include "constants.inc"
}

}  // namespace plait::test

#define LISTED(NAME) {#NAME, [](page_row* row) { plait::test::row_##NAME{*row}; }},
const row_function left_column[] = {
#include "left_names.inc"
    {nullptr, nullptr}};
