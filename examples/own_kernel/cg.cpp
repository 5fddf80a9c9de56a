// Conjugate gradients whose dot products end inside the kernels that make them: an iteration is two
// launches and nothing else. To compare, the same kernels run on each rank alone, with a call of
// the library per halo and per dot product.
//   mpirun -n 2 build/cg [edge] [iterations] [blocks] [threads]
// Solves -Laplace u = b by the 7-point stencil, with u = 0 around. Each rank has `edge`^3 points;
// these cubes are stacked along z.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <plait/kernel.hpp>
#include <plait/plait.hpp>
#include <span>
#include <utility>
#include <vector>

// A field holds a plane of the rank below, this rank's `points` with x fastest, and a plane of the
// rank above. These two planes are its ghosts. They stay 0 where there is no such rank.
struct Grid {
  std::size_t edge, plane, points;
};

struct State {
  double *x, *q, *p, *last_p, *r, *next_r;
  double *pq, *rr, *other_rr;  // other_rr: r.r of the last iteration, then that of the next one
};

// The new direction:
//   1. A barrier: the earlier kernels of all ranks have ended.
//   2. p = r + beta last_p, and q = A p. The stencil computes p in the neighbouring points anew,
//      from r and last_p. So other ranks read only r, and each rank computes its ghosts of p.
//   3. p.q over all ranks.
// Why one barrier per iteration is enough: when a rank comes to (1), its last `Update` has written
// r, and its last `Direction` has read the previous r of its neighbours. That memory is next_r now.
// This rank's `Update` overwrites it when all blocks have left this kernel, so after (1). The total
// orders nothing. If r were updated in place, that would need a second barrier, after (2).
struct Direction {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, plait::PeerView<double> r, State s, Grid grid) const {
    if (!here.barrier()) return;
    const std::size_t end = grid.plane + grid.points;
    const double *below = r.own(), *above = r.own() + end;
    if (here.rank() > 0) below = r[here.rank() - 1] + grid.points;
    if (here.rank() + 1 < here.ranks()) above = r[here.rank() + 1] + grid.plane;
    const double beta = *s.other_rr > 0 ? *s.rr / *s.other_rr : 0;
    const auto p = [&](std::size_t at) {
      const double* from = s.r + at;
      if (at < grid.plane) from = below + at;
      if (at >= end) from = above + (at - end);
      return *from + beta * s.last_p[at];
    };
    double pq[1] = {};
    for (std::size_t at = grid.plane + here.index(); at < end; at += here.stride()) {
      const std::size_t column = at % grid.edge, row = at / grid.edge % grid.edge;
      const double mine = p(at), lower = p(at - grid.plane), upper = p(at + grid.plane);
      double q = 6 * mine - lower - upper;
      if (column > 0) q -= p(at - 1);
      if (column + 1 < grid.edge) q -= p(at + 1);
      if (row > 0) q -= p(at - grid.edge);
      if (row + 1 < grid.edge) q -= p(at + grid.edge);
      s.p[at] = mine;
      if (at < 2 * grid.plane) s.p[at - grid.plane] = lower;
      if (at >= grid.points) s.p[at + grid.plane] = upper;
      s.q[at] = q;
      pq[0] += mine * q;
    }
    here.total(pq, s.pq);
  }
};

// x += alpha p, r -= alpha q, and r.r over all ranks.
struct Update {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, State s, Grid grid) const {
    const double alpha = *s.pq > 0 ? *s.rr / *s.pq : 0;
    double rr[1] = {};
    for (std::size_t i = here.index(); i < grid.points; i += here.stride()) {
      const std::size_t at = grid.plane + i;
      const double r = s.r[at] - alpha * s.q[at];
      s.x[at] += alpha * s.p[at];
      s.next_r[at] = r;
      rr[0] += r * r;
    }
    here.total(rr, s.other_rr);
  }
};

// Fills the ghosts by messages.
void exchange(plait::Communicator& comm, double* field, Grid grid) {
  const int below = comm.rank() > 0 ? comm.rank() - 1 : plait::proc_null;
  const int above = comm.rank() + 1 < comm.size() ? comm.rank() + 1 : plait::proc_null;
  plait::Group group;
  comm.send(std::span(field + grid.plane, grid.plane), below);
  comm.send(std::span(field + grid.points, grid.plane), above);
  comm.recv(std::span(field, grid.plane), below);
  comm.recv(std::span(field + grid.plane + grid.points, grid.plane), above);
}

// The kernels run on `on`: all ranks, or this one alone. There they find no neighbours, read the
// ghosts of r, and end in this rank's sums. So `comm` fills the ghosts and adds up the sums.
bool solve(plait::Communicator& comm, plait::Communicator& on, plait::LaunchShape shape, Grid grid,
           unsigned iterations) {
  const std::size_t size = grid.points + 2 * grid.plane, bytes = size * sizeof(double);
  std::vector<double> b(size), x(size);
  double sums[3] = {};  // p.q, r.r, and the last r.r: without one, beta is 0
  for (std::size_t at = grid.plane; at < grid.plane + grid.points; ++at) {
    b[at] = static_cast<double>((at + comm.rank() * grid.points) * 2654435761u % 1009) / 1009;
    sums[1] += b[at] * b[at];
  }
  const auto fields = comm.allocate<double>(4 * size), dots = comm.allocate<double>(3);
  const auto r = on.allocate<double>(size), next_r = on.allocate<double>(size);
  double *const f = fields.data(), *const d = dots.data();
  const bool alone = &on != &comm;
  const auto add = [&](double* sum) {
    comm.all_reduce(std::span(sum, 1), std::span(sum, 1), plait::ReduceOp::sum);
  };

  double best = HUGE_VAL;  // microseconds
  for (int repetition = 0; repetition < 5; ++repetition) {
    auto view = plait::view_of(on, r), next_view = plait::view_of(on, next_r);
    State s{f, f + size, f + 2 * size, f + 3 * size, r.data(), next_r.data(), d, d + 1, d + 2};
    comm.barrier();  // all ranks have read r
    comm.copy(s.x, x.data(), bytes);
    comm.copy(s.r, b.data(), bytes);
    comm.copy(d, sums, sizeof(sums));
    add(s.rr);
    if (alone) exchange(comm, s.r, grid);
    comm.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (unsigned k = 0; k < iterations; ++k) {
      plait::launch(on, {}, shape, Direction{}, view, s, grid);
      if (alone) add(s.pq);
      plait::launch(on, {}, shape, Update{}, s, grid);
      if (alone) add(s.other_rr), exchange(comm, s.next_r, grid);
      std::swap(view, next_view);
      std::swap(s.r, s.next_r);
      std::swap(s.p, s.last_p);
      std::swap(s.rr, s.other_rr);
    }
    comm.synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / iterations * 1e6);
  }

  exchange(comm, f, grid);
  comm.copy(x.data(), f, bytes);
  comm.synchronize();
  double squares = 0;
  for (std::size_t at = grid.plane; at < grid.plane + grid.points; ++at) {
    const std::size_t column = at % grid.edge, row = at / grid.edge % grid.edge;
    double left = b[at] - 6 * x[at] + x[at - grid.plane] + x[at + grid.plane];
    if (column > 0) left += x[at - 1];
    if (column + 1 < grid.edge) left += x[at + 1];
    if (row > 0) left += x[at - grid.edge];
    if (row + 1 < grid.edge) left += x[at + grid.edge];
    squares += left * left;
  }
  const double residual = std::sqrt(squares / sums[1]);
  const bool good = residual < 1e-8;
  std::printf("rank %d: %s: %u iterations of %.1f us, residual %.1e %s\n", comm.rank(),
              alone ? "separate calls" : "in the kernels", iterations, best, residual,
              good ? "ok" : "is too large");
  return good;
}

int main(int argc, char** argv) {
  const auto option = [&](int i, unsigned otherwise) {
    return argc > i ? static_cast<unsigned>(std::atoi(argv[i])) : otherwise;
  };
  plait::Communicator comm = plait::make_world_communicator();
  plait::Communicator alone = *comm.split(comm.rank(), 0);
  const bool host = comm.backend_kind() == plait::BackendKind::host;
  const std::size_t edge = option(1, 16);
  const Grid grid{edge, edge * edge, edge * edge * edge};
  const plait::LaunchShape shape{option(3, host ? 2 : 128), option(4, 512)};
  const bool in_kernels = solve(comm, comm, shape, grid, option(2, 120));
  const bool in_calls = solve(comm, alone, shape, grid, option(2, 120));
  return in_kernels && in_calls ? 0 : 1;
}
