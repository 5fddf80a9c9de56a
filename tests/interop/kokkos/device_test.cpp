// Collectives on views of the default execution space, GPUs where Kokkos has them: calls take their
// place between kernels on the same instance, without a fence; and kernels of teams. To be run by
// mpirun, a rank a device. Prints what is wrong; the exit status says whether anything was.
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <plait/kokkos.hpp>
#include <plait/kokkos/launch.hpp>
#include <plait/mpi.hpp>
#include <plait/plait.hpp>
#include <utility>
#include <vector>

namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
using Vector = Kokkos::View<double*, Memory>;
constexpr std::size_t length = 30'011;

int failures = 0;

/// Element i of rank r's input.
KOKKOS_INLINE_FUNCTION double input(std::size_t r, std::size_t i) {
  return static_cast<double>((r * 5 + i * 3) % 17);
}

/// Rank r's data from place `first` on.
void fill(const Exec& exec, const Vector& view, std::size_t r, std::size_t first = 0) {
  Kokkos::parallel_for(
      Kokkos::RangePolicy<Exec>(exec, 0, view.extent(0)),
      KOKKOS_LAMBDA(const int i) { view(i) = input(r, first + static_cast<std::size_t>(i)); });
}
void add(const Exec& exec, const Vector& term, const Vector& sum) {
  Kokkos::parallel_for(
      Kokkos::RangePolicy<Exec>(exec, 0, sum.extent(0)),
      KOKKOS_LAMBDA(const int i) { sum(i) += term(i); });
}

template <class Expected>
void expect(const Exec& exec, const Vector& view, const char* what, const Expected& expected) {
  exec.fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  for (std::size_t i = 0; i < host.extent(0); ++i) {
    if (host(i) == expected(i)) continue;
    std::fprintf(stderr, "%s: element %zu is %g instead of %g\n", what, i, host(i), expected(i));
    ++failures;
    return;
  }
}

struct Ranks {
  std::size_t rank, ranks;
  double sum(std::size_t i) const {
    double total = 0;
    for (std::size_t r = 0; r < ranks; ++r) total += input(r, i);
    return total;
  }
};

/// A kernel writes what is added up, and the next one reads the sum, many times without the host
/// waiting.
void check_order(const Exec& exec, plait::Communicator& comm, const Ranks& all) {
  constexpr std::size_t rounds = 200;
  const Vector mine("mine", length), sum("sum", length), total("total", length);
  for (std::size_t round = 0; round < rounds; ++round) {
    fill(exec, mine, all.rank, round);
    plait::kokkos::all_reduce(exec, comm, mine, sum, plait::ReduceOp::sum);
    add(exec, sum, total);
  }
  expect(exec, total, "all_reduce between kernels", [&](std::size_t i) {
    double wanted = 0;
    for (std::size_t round = 0; round < rounds; ++round) wanted += all.sum(i + round);
    return wanted;
  });
}

void check_symmetric(const Exec& exec, plait::Communicator& comm, const Ranks& all) {
  plait::kokkos::SymmetricBuffer<double, Memory> buffer(comm, length);
  const Vector view = buffer.view();
  fill(exec, view, all.rank);
  plait::kokkos::all_reduce(exec, comm, view, plait::ReduceOp::sum);
  expect(exec, view, "all_reduce in place in symmetric memory",
         [&](std::size_t i) { return all.sum(i); });
}

void check_collectives(const Exec& exec, plait::Communicator& comm, const Ranks& all) {
  using namespace plait::kokkos;
  const auto sum = plait::ReduceOp::sum;
  const int root = comm.size() - 1, next = (comm.rank() + 1) % comm.size(),
            previous = (comm.rank() + comm.size() - 1) % comm.size();
  const bool is_root = comm.rank() == root;
  const Vector block("block", length), other("other", length), blocks("blocks", all.ranks * length),
      others("others", all.ranks * length);
  fill(exec, block, all.rank);
  fill(exec, blocks, all.rank);

  reduce_scatter(exec, comm, blocks, other, sum);
  expect(exec, other, "reduce_scatter",
         [&](std::size_t i) { return all.sum(all.rank * length + i); });
  all_gather(exec, comm, block, others);
  expect(exec, others, "all_gather", [&](std::size_t i) { return input(i / length, i % length); });
  all_to_all(exec, comm, blocks, others);
  expect(exec, others, "all_to_all",
         [&](std::size_t i) { return input(i / length, all.rank * length + i % length); });
  broadcast(exec, comm, block, other, root);
  expect(exec, other, "broadcast", [&](std::size_t i) { return input(all.ranks - 1, i); });
  send_recv(exec, comm, block, next, other, previous);
  expect(exec, other, "send_recv",
         [&](std::size_t i) { return input(static_cast<std::size_t>(previous), i); });
  scatter(exec, comm, blocks, other, root);
  expect(exec, other, "scatter",
         [&](std::size_t i) { return input(all.ranks - 1, all.rank * length + i); });
  reduce(exec, comm, block, other, sum, root);
  if (is_root) expect(exec, other, "reduce", [&](std::size_t i) { return all.sum(i); });
  gather(exec, comm, block, others, root);
  if (is_root)
    expect(exec, others, "gather", [&](std::size_t i) { return input(i / length, i % length); });
  std::vector<std::size_t> counts(all.ranks, length);
  counts.front() = 0;
  counts.back() = length / 2;
  const std::size_t begin = all.rank == 0 ? 0 : (all.rank - 1) * length;
  const auto part = [](const Vector& view, std::size_t count) {
    return Vector(Kokkos::subview(view, std::make_pair(std::size_t{0}, count)));
  };
  const Vector reduced = part(other, counts[all.rank]);
  reduce_scatter_v(exec, comm,
                   part(blocks, std::accumulate(counts.begin(), counts.end(), std::size_t{0})),
                   counts, reduced, sum);
  expect(exec, reduced, "reduce_scatter_v", [&](std::size_t i) { return all.sum(begin + i); });
  barrier(exec, comm);
  exec.fence();
}

/// Each team sends its row to the next rank, by way of scratch memory, and adds up what has come.
struct Pass {
  static constexpr int teams = 7, columns = 1001;
  Kokkos::View<double**, Kokkos::LayoutRight, Memory> mine;
  double* sums;

  template <class Here, class Team>
  KOKKOS_FUNCTION void operator()(Here& here, const Team& team,
                                  plait::PeerView<double> rows) const {
    const int row = team.league_rank();
    double* const staged =
        static_cast<double*>(team.team_shmem().get_shmem(columns * sizeof(double)));
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, columns),
                         [&](const int i) { staged[columns - 1 - i] = mine(row, i); });
    if (!here.barrier()) return;  // nobody reads the rows of the last round any more
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, columns), [&](const int i) {
      rows[rows.after()][row * columns + i] = staged[columns - 1 - i] + row;
    });
    here.signal(rows.after(), 2);
    if (!here.wait(rows.before(), 2)) return;
    double sum[2] = {};
    for (int i = static_cast<int>(here.thread()); i < columns;
         i += static_cast<int>(here.threads()))
      sum[0] += rows.own()[row * columns + i];
    if (here.thread() == 0) sum[1] = row == static_cast<int>(here.block()) ? 1 : 0;
    here.total(sum, sums);
  }
};

void check_teams(const Exec& exec, plait::Communicator& comm, const Ranks& all) {
  constexpr std::size_t cells = std::size_t{Pass::teams} * Pass::columns;
  const decltype(Pass::mine) mine("mine", Pass::teams, Pass::columns);
  const Vector flat(mine.data(), cells), sums("sums", 2);
  plait::kokkos::SymmetricBuffer<double, Memory> buffer(comm, cells);
  for (std::size_t round = 0; round < 20; ++round) {
    fill(exec, flat, all.rank, round);
    plait::kokkos::launch(
        comm,
        Kokkos::TeamPolicy<Exec>(exec, Pass::teams, Kokkos::AUTO)
            .set_scratch_size(0, Kokkos::PerTeam((Pass::columns + 1) * int{sizeof(double)})),
        Pass{mine, sums.data()}, plait::view_of(comm, buffer.buffer()));
    const std::size_t before = (all.rank + all.ranks - 1) % all.ranks;
    const auto sent = [&](std::size_t rank, std::size_t i) {
      const std::size_t row = i / Pass::columns;
      return input(rank, round + i) + static_cast<double>(row);
    };
    expect(exec, buffer.view(), "rows of the rank before",
           [&](std::size_t i) { return sent(before, i); });
    double total = 0;
    for (std::size_t rank = 0; rank < all.ranks; ++rank)
      for (std::size_t i = 0; i < cells; ++i) total += sent(rank, i);
    expect(exec, sums, "totals of all teams", [&](std::size_t i) {
      return i == 0 ? total : static_cast<double>(all.ranks * Pass::teams);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  {
    auto comm =
        plait::make_communicator(MPI_COMM_WORLD, plait::kokkos::communicator_options(Exec()));
    const Ranks all{static_cast<std::size_t>(comm.rank()), static_cast<std::size_t>(comm.size())};
    check_order(Exec(), comm, all);
    check_symmetric(Exec(), comm, all);
    check_collectives(Exec(), comm, all);
    check_teams(Exec(), comm, all);
    if (comm.rank() == 0)
      std::printf("%s, %d ranks: %s\n", Exec::name(), comm.size(),
                  failures == 0 ? "all right" : "WRONG");
  }
  return failures == 0 ? 0 : 1;
}
