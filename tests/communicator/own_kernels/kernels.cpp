#include "communicator/own_kernels/kernels.hpp"

namespace plait::test {
namespace {

struct Store {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, std::uint32_t* to) const {
    if (here.thread() == 0) *to = 1;
  }
};

}  // namespace

void launch_one(Communicator& comm, std::uint32_t* to) { launch(comm, {}, {1, 1}, Store{}, to); }

void launch_shift(Communicator& comm, StreamRef stream, LaunchShape shape,
                  const PeerView<std::uint32_t>& view, std::uint32_t* to, std::size_t count) {
  launch(comm, stream, shape, Shift{}, view, to, count);
}
void launch_all_to_all(Communicator& comm, StreamRef stream, LaunchShape shape,
                       const PeerView<std::uint64_t>& view, std::uint64_t* sums, std::uint64_t seed,
                       unsigned rounds) {
  launch(comm, stream, shape, AllToAll{}, view, sums, seed, rounds);
}
void launch_sums(Communicator& comm, StreamRef stream, LaunchShape shape,
                 const std::uint64_t* values, std::size_t count, std::uint64_t* of_blocks,
                 double* of_threads, std::uint64_t* total) {
  launch(comm, stream, shape, Sums{}, values, count, of_blocks, of_threads, total);
}
void launch_wrong(Communicator& comm, StreamRef stream, LaunchShape shape, Wrong::Way way,
                  const PeerView<std::uint32_t>& view) {
  launch(comm, stream, shape, Wrong{way}, view);
}

}  // namespace plait::test
