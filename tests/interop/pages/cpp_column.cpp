// The column of C++: each row's lines as a function.
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "columns.hpp"
//
#include "cpp_top.inc"

namespace plait::test {
namespace {

using Counts = std::vector<std::size_t>;

/// What the lines name beside `comm`, which the page makes.
struct Names {
  explicit Names(page_row& row) : of(row) {
    if (!std::string_view(of.name).ends_with("InitRank")) return;
    if (rank == 0) id = UniqueId::create();
    MPI_Bcast(id.bytes.data(), UniqueId::size, MPI_BYTE, 0, mpi);
  }

  page_row& of;
  MPI_Comm mpi = of.mpi;
  CUstream_st* stream = static_cast<CUstream_st*>(of.stream);
  int &rank = of.rank, &size = of.size;
  const int root = of.root, left = of.left, right = of.right, color = of.color, key = of.key;
  const std::size_t n = of.n;
  const double factor = of.factor;
  double *send = of.send, *recv = of.recv, *x = of.x;
  const Counts send_counts = per_rank(of.send_counts), send_starts = per_rank(of.send_starts);
  const Counts recv_counts = per_rank(of.recv_counts), recv_starts = per_rank(of.recv_starts);
  const Counts counts = per_rank(of.counts), starts = per_rank(of.starts);
  UniqueId id;
  std::optional<Error> error;

  Counts per_rank(const std::size_t* first) const { return {first, first + ranks}; }
  void note(const Communicator& comm, const std::optional<Communicator>& part) const {
    of.comm_rank = comm.rank(), of.comm_size = comm.size();
    of.part_rank = part ? part->rank() : -1, of.part_size = part ? part->size() : -1;
  }
  void note(const Error& thrown) const {
    std::snprintf(of.error, sizeof of.error, "%s", name_of(thrown.code()).data());
  }
};

#define BEGIN_ROW(NAME)       \
  struct row_##NAME : Names { \
    explicit row_##NAME(page_row& row) : Names(row) {
#define BEGIN_LINES                                  \
  std::optional<Communicator> part;                  \
  Buffer<double> buffer;                             \
  if (of.frees_a_part != 0) part = comm.duplicate(); \
  try {
#define END_LINES               \
  note(comm, part);             \
  comm.synchronize(stream);     \
  }                             \
  catch (const Error& thrown) { \
    note(thrown);               \
  }
#define END_ROW \
  }             \
  }             \
  ;
#include "cpp.inc"

}  // namespace

}  // namespace plait::test

#define LISTED(NAME) {#NAME, [](page_row* row) { plait::test::row_##NAME{*row}; }},
const row_function cpp_column[] = {
#include "cpp_names.inc"
    {nullptr, nullptr}};
