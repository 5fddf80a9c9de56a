// The exchange with Plait: an all-reduce in symmetric memory, and messages to both neighbours in a
// group.
#pragma once
#include <cstddef>
#include <vector>

#include "exchange.hpp"
#include "parallel.hpp"
#include "plait/plait.hpp"
#include "problem.hpp"

namespace poisson {

class PlaitExchange final : public Exchange {
 public:
  PlaitExchange(plait::Communicator& comm, Device& device, const Slab& slab)
      : comm_(comm), device_(device), neighbours_(slab.neighbours()), layer_(slab.layer()) {}

  double* numbers(std::size_t count) override {
    return numbers_.emplace_back(comm_.allocate<double>(count)).data();
  }

  void sum(double* number) override {
    comm_.all_reduce(number, number, 1, plait::DataType::f64, plait::ReduceOp::sum,
                     device_.stream());
    complete();
  }

  void halo(double* field) override {
    {
      plait::Group group;
      for (const Neighbour& neighbour : neighbours_) {
        comm_.send(field + neighbour.send, layer_, plait::DataType::f64, neighbour.rank,
                   device_.stream());
        comm_.recv(field + neighbour.receive, layer_, plait::DataType::f64, neighbour.rank,
                   device_.stream());
      }
    }
    complete();
  }

  bool capturable() const override { return true; }

 private:
  /// On the host, loops run on the calling thread and not on a stream, so it waits here.
  void complete() {
    if constexpr (target == plait::BackendKind::host) comm_.synchronize(device_.stream());
  }

  plait::Communicator& comm_;
  Device& device_;
  std::vector<Neighbour> neighbours_;
  std::size_t layer_;
  std::vector<plait::Buffer<double>> numbers_;
};

}  // namespace poisson
