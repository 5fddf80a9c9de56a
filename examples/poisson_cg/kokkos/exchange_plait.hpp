// The exchange with Plait for Kokkos: an all-reduce of a view in symmetric memory, and messages to
// both neighbours in a group.
#pragma once
#include <cstddef>
#include <vector>

#include "exchange.hpp"
#include "parallel.hpp"
#include "plait/kokkos.hpp"
#include "plait/plait.hpp"
#include "problem.hpp"

namespace poisson {

class PlaitExchange final : public Exchange {
 public:
  PlaitExchange(plait::Communicator& comm, Device& device, const Slab& slab)
      : comm_(comm), device_(device), neighbours_(slab.neighbours()), layer_(slab.layer()) {}

  double* numbers(std::size_t count) override { return numbers_.emplace_back(comm_, count).data(); }

  void sum(double* number) override {
    plait::kokkos::all_reduce(device_.exec(), comm_, NumberView(number), plait::ReduceOp::sum);
  }

  void halo(double* field) override {
    if constexpr (target == plait::BackendKind::host) device_.synchronize();
    {
      plait::Group group;
      for (const Neighbour& neighbour : neighbours_) {
        comm_.send(field + neighbour.send, layer_, plait::DataType::f64, neighbour.rank,
                   device_.stream());
        comm_.recv(field + neighbour.receive, layer_, plait::DataType::f64, neighbour.rank,
                   device_.stream());
      }
    }
    if constexpr (target == plait::BackendKind::host)
      plait::kokkos::synchronize(device_.exec(), comm_);
  }

  bool capturable() const override { return true; }

 private:
  plait::Communicator& comm_;
  Device& device_;
  std::vector<Neighbour> neighbours_;
  std::size_t layer_;
  std::vector<plait::kokkos::SymmetricBuffer<double, Memory>> numbers_;
};

}  // namespace poisson
