// Each cell of a ring becomes the mean of its two neighbours, which may be on other ranks.
#include <cstdio>
#include <plait/kernel.hpp>
#include <plait/plait.hpp>
#include <vector>

struct Smooth {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, plait::PeerView<double> cells, double* means,
                               std::size_t count) const {
    if (!here.barrier()) return;  // the neighbours' cells are there
    for (std::size_t i = here.index(); i < count; i += here.stride()) {
      const double left = i > 0 ? cells.own()[i - 1] : cells[cells.before()][count - 1];
      const double right = i + 1 < count ? cells.own()[i + 1] : cells[cells.after()][0];
      means[i] = (left + right) / 2;
    }
    here.barrier();  // the neighbours have read
  }
};

int main() {
  plait::Communicator comm = plait::make_world_communicator();
  const std::size_t count = 1000;
  const auto cells = comm.allocate<double>(count), means = comm.allocate<double>(count);
  std::vector<double> values(count, comm.rank());
  comm.copy(cells.data(), values.data(), count * sizeof(double));
  plait::launch(comm, {}, {4, 128}, Smooth{}, plait::view_of(comm, cells), means.data(), count);
  comm.copy(values.data(), means.data(), count * sizeof(double));
  comm.synchronize();
  std::printf("rank %d: %g %g ... %g\n", comm.rank(), values[0], values[1], values[count - 1]);
}
