// The exchange of the halo of a periodic grid in three dimensions, as one kernel of Kokkos teams,
// beside the same with kernels that pack and unpack. `halo [EDGE [ROUNDS]]`: cells of a rank along
// each edge, and how often to exchange.
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <plait/kokkos.hpp>
#include <plait/kokkos/launch.hpp>
#include <plait/plait.hpp>

namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Cells = Kokkos::View<double*, Exec::memory_space>;
constexpr int faces = 6;

/// A rank's cells with a layer of others' cells around them: face 2d is the lower one of dimension
/// d, face 2d + 1 the upper one. Dimension 2 is the fastest.
struct Grid {
  int edge;               // own cells along each edge
  int neighbours[faces];  // ranks

  KOKKOS_FUNCTION int stride(int dimension) const {
    const int all = edge + 2;
    return dimension == 0 ? all * all : dimension == 1 ? all : 1;
  }
  KOKKOS_FUNCTION int cells_of_face() const { return edge * edge; }
  /// The place of cell `i` of a face among the rank's cells, ...
  KOKKOS_FUNCTION int place(int face, int i) const {
    const int dimension = face / 2;
    return (face % 2 == 0 ? 1 : edge) * stride(dimension) +
           (i / edge + 1) * stride(dimension == 0 ? 1 : 0) +
           (i % edge + 1) * stride(dimension == 2 ? 1 : 2);
  }
  /// ... and its copy's, on the other side of the neighbour.
  KOKKOS_FUNCTION int copy(int face, int i) const {
    return place(face, i) + (face % 2 == 0 ? edge : -edge) * stride(face / 2);
  }
};

/// 1. Each team waits until the same team of all ranks has come here. The kernels before have ended
///    there, so nobody reads the old halo any more.
/// 2. The teams share the cells of all faces, and store each straight where the neighbour needs it.
/// 3. Each team waits for the same team of all ranks again. When all teams have, all of this rank's
///    halo is there.
struct Exchange {
  Grid grid;

  template <class Here, class Team>
  KOKKOS_FUNCTION void operator()(Here& here, const Team& team,
                                  plait::PeerView<double> cells) const {
    if (!here.barrier()) return;
    const int per_face = grid.cells_of_face(), teams = team.league_size();
    const int share = (faces * per_face + teams - 1) / teams, begin = team.league_rank() * share;
    const int end = begin + share < faces * per_face ? begin + share : faces * per_face;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, begin, end), [&](const int i) {
      const int face = i / per_face, in_face = i % per_face;
      cells[grid.neighbours[face]][grid.copy(face, in_face)] =
          cells.own()[grid.place(face, in_face)];
    });
    here.barrier();
  }
};

/// The same in three steps.
class Packed {
 public:
  explicit Packed(const Grid& grid)
      : grid_(grid), sent_("sent", size()), received_("received", size()) {
    for (std::size_t face = 0; face < faces; ++face) {
      to_[face] = grid.neighbours[face];
      from_[face] = grid.neighbours[face ^ 1];  // what its lower face sends comes to the upper halo
      places_[face] = face * size() / faces;
      counts_[face] = size() / faces;
    }
  }
  void exchange(const Exec& exec, plait::Communicator& comm, const Cells& cells) const {
    const Grid grid = grid_;
    const Cells sent = sent_, received = received_;
    const int per_face = grid.cells_of_face();
    const Kokkos::RangePolicy<Exec> all(exec, 0, faces * per_face);
    Kokkos::parallel_for(
        all,
        KOKKOS_LAMBDA(const int i) { sent(i) = cells(grid.place(i / per_face, i % per_face)); });
    plait::kokkos::neighbor_all_to_all_v(exec, comm, sent, {to_, counts_, places_}, received,
                                         {from_, counts_, places_});
    Kokkos::parallel_for(
        all,
        KOKKOS_LAMBDA(const int i) { cells(grid.copy(i / per_face, i % per_face)) = received(i); });
  }

 private:
  std::size_t size() const {
    return std::size_t{faces} * static_cast<unsigned>(grid_.cells_of_face());
  }
  Grid grid_;
  Cells sent_, received_;
  std::array<int, faces> to_, from_;
  std::array<std::size_t, faces> counts_, places_;
};

/// Where the ranks are: `extents` of them along each dimension, as equal as they get.
struct Ranks {
  std::array<int, 3> extents{1, 1, 1};

  explicit Ranks(int ranks) {
    for (int factor = 2; ranks > 1; ++factor)
      for (; ranks % factor == 0; ranks /= factor)
        *std::min_element(extents.begin(), extents.end()) *= factor;
  }
  std::array<int, 3> place(int rank) const {
    return {rank / (extents[1] * extents[2]), rank / extents[2] % extents[1], rank % extents[2]};
  }
  int neighbour(int rank, int face) const {
    std::array<int, 3> at = place(rank);
    const auto d = static_cast<std::size_t>(face / 2);
    at[d] = (at[d] + (face % 2 == 0 ? extents[d] - 1 : 1)) % extents[d];
    return (at[0] * extents[1] + at[1]) * extents[2] + at[2];
  }
};

KOKKOS_FUNCTION double value(int rank, int place, int round) {
  return static_cast<double>((rank * 7919u + static_cast<unsigned>(place)) * 2654435761u % 65521u) +
         round;
}

/// How many cells of the halo are not what the neighbours have.
int wrong_cells(const Exec& exec, const Grid& grid, const Cells& cells, int round) {
  int wrong = 0;
  const int per_face = grid.cells_of_face();
  Kokkos::parallel_reduce(
      Kokkos::RangePolicy<Exec>(exec, 0, faces * per_face),
      KOKKOS_LAMBDA(const int i, int& found) {
        const int face = i / per_face;
        if (cells(grid.copy(face, i % per_face)) !=
            value(grid.neighbours[face ^ 1], grid.place(face, i % per_face), round))
          ++found;
      },
      wrong);
  return wrong;
}

void fill(const Exec& exec, const Cells& cells, int rank, int round) {
  Kokkos::parallel_for(
      Kokkos::RangePolicy<Exec>(exec, 0, cells.extent_int(0)),
      KOKKOS_LAMBDA(const int i) { cells(i) = value(rank, i, round); });
}

/// Microseconds of an exchange: the mean of `rounds`, the least of three times.
template <class Step>
double microseconds(const Exec& exec, plait::Communicator& comm, int rounds, const Step& step) {
  double least = 1e30;
  for (int repeat = 0; repeat < 3; ++repeat) {
    plait::kokkos::barrier(exec, comm);
    plait::kokkos::synchronize(exec, comm);
    const Kokkos::Timer timer;
    for (int round = 0; round < rounds; ++round) step();
    plait::kokkos::synchronize(exec, comm);
    least = std::min(least, timer.seconds() * 1e6 / rounds);
  }
  return least;
}

int run(int edge, int rounds) {
  const Exec exec;
  plait::Communicator comm =
      plait::make_world_communicator(plait::kokkos::communicator_options(exec));
  Grid grid{edge, {}};
  for (int face = 0; face < faces; ++face)
    grid.neighbours[face] = Ranks(comm.size()).neighbour(comm.rank(), face);
  const std::size_t all = static_cast<unsigned>(edge) + 2;
  const plait::kokkos::SymmetricBuffer<double> buffer(comm, all * all * all);
  const Cells cells = buffer.view();
  const Packed packed(grid);

  const int teams = std::clamp(exec.concurrency() / 512, 3, 256);
  const auto in_one_kernel = [&] {
    plait::kokkos::launch(comm, Kokkos::TeamPolicy<Exec>(exec, teams, Kokkos::AUTO), Exchange{grid},
                          plait::view_of(comm, buffer.buffer()));
  };
  const auto in_steps = [&] { packed.exchange(exec, comm, cells); };
  int wrong = 0;
  for (int round = 0; round < 10; ++round) {
    fill(exec, cells, comm.rank(), round);
    if (round % 2 == 0) in_one_kernel();
    else in_steps();
    wrong += wrong_cells(exec, grid, cells, round);
  }
  std::printf("rank %d: %d cells of the halo are wrong\n", comm.rank(), wrong);
  const double one = microseconds(exec, comm, rounds, in_one_kernel),
               steps = microseconds(exec, comm, rounds, in_steps);
  if (comm.rank() == 0)
    std::printf("one kernel: %.1f us; pack, neighbor_all_to_all_v, unpack: %.1f us\n", one, steps);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return run(argc > 1 ? std::atoi(argv[1]) : 24, argc > 2 ? std::atoi(argv[2]) : 20);
}
