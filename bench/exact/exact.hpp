// Exact test data on any target: fills inputs and counts wrong results, for the benchmark and the
// tests.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/backend.hpp"
#include "plait/types.hpp"

namespace plait::exact {

/// Chooses the data. Equal on all ranks, except for `rank`. Different seeds give unrelated data.
struct Case {
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int rank = 0, ranks = 1;
  std::uint32_t seed = 0;
  double scale = 1;  // for premul_sum; must be a power of two near 1, such as 0.5 or 2
  /// Number of the element at `pointer`, within the rank's input or the result.
  std::size_t first = 0;
  int terms = 0;  // in the result, those of the first ranks; 0: all
};

/// Enqueues a kernel that writes the input of rank `data.rank` from element `first` on: `count`
/// elements at `pointer`, which the device must be able to write.
void fill(Backend& backend, NativeStream stream, const Case& data, void* pointer,
          std::size_t count);

/// Counts the elements among the `count` at `pointer` that are not the reduction `op` of the ranks'
/// inputs, bit for bit. One case has a tolerance of ranks * epsilon * (largest term) instead: `avg`
/// of f32 and f64, also as parts of complex numbers, if the number of ranks is no power of two. The
/// padding behind an index may have any bits. Waits for `stream`; allocates.
std::size_t count_wrong(Backend& backend, NativeStream stream, const Case& data,
                        const void* pointer, std::size_t count);

/// Counts the elements that differ from the input that `fill` makes for rank `data.rank`. Waits for
/// `stream`; allocates.
std::size_t count_changed(Backend& backend, NativeStream stream, const Case& data,
                          const void* pointer, std::size_t count);

}  // namespace plait::exact
