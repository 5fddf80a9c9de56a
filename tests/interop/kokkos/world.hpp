// Shared by the files of this test: the communicator of all ranks, and short names.
#pragma once
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <functional>
#include <plait/kokkos.hpp>
#include <plait/mpi.hpp>
#include <plait/plait.hpp>
#include <vector>

namespace plait::test {

using Exec = Kokkos::DefaultHostExecutionSpace;
using Left = Kokkos::LayoutLeft;
using Right = Kokkos::LayoutRight;

inline Communicator& comm() {
  static Communicator world =
      make_communicator(MPI_COMM_WORLD, kokkos::communicator_options(Exec()));
  return world;
}
inline std::size_t ranks() { return static_cast<std::size_t>(comm().size()); }
inline std::size_t rank() { return static_cast<std::size_t>(comm().rank()); }

/// In a ring.
inline int next() { return (comm().rank() + 1) % comm().size(); }
inline int previous() { return (comm().rank() + comm().size() - 1) % comm().size(); }

/// Counts of `all_to_all_v` and where the blocks begin: one behind the other, with a gap before
/// each.
struct Displaced {
  static constexpr std::size_t gap = 2;
  std::vector<std::size_t> counts, displacements;
  std::size_t end = 0;

  explicit Displaced(const std::function<std::size_t(std::size_t)>& count) {
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      counts.push_back(count(peer));
      displacements.push_back(end + gap);
      end += gap + counts.back();
    }
  }
  Communicator::BlocksOf blocks() const { return {counts, displacements}; }
};
}  // namespace plait::test
