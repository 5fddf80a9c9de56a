// What a distributed solver needs of the other ranks. Both calls are made by all ranks, on the same
// device and in its order.
#pragma once
#include <cstddef>

namespace poisson {

class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Device memory for numbers that `sum` takes; zeroed, and kept until the end. Collective.
  virtual double* numbers(std::size_t count) = 0;
  /// The sum of one number of every rank, in its place.
  virtual void sum(double* number) = 0;
  /// Fills the layers of `field` that copy a neighbour's.
  virtual void halo(double* field) = 0;
  /// Whether the calls may be recorded in a graph.
  virtual bool capturable() const = 0;
};

}  // namespace poisson
