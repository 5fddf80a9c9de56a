// The exchange between ranks in a distributed solver. All ranks make the same calls, and each call
// is ordered on the rank's device.
#pragma once
#include <cstddef>

namespace poisson {

class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Device memory for numbers that `sum` accepts; zeroed, and kept until the end. Collective.
  virtual double* numbers(std::size_t count) = 0;
  /// Replaces a number by its sum over all ranks.
  virtual void sum(double* number) = 0;
  /// Fills the layers of `field` that are copies of a neighbour's layers.
  virtual void halo(double* field) = 0;
  /// True if the calls may be recorded in a graph.
  virtual bool capturable() const = 0;
};

}  // namespace poisson
