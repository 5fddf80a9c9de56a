// Exact test data on any target: fill inputs, count wrong results. Used by the benchmark and the
// tests.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/backend.hpp"
#include "plait/types.hpp"

namespace plait::exact {

/// Which data: the same on all ranks, but for `rank`. Different seeds give unrelated data.
struct Case {
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int rank = 0, ranks = 1;
  std::uint32_t seed = 0;
  double scale = 1;  // premul_sum; must be a power of two near 1, such as 0.5 or 2
  std::size_t first =
      0;  // number of the element at `pointer`, of the rank's input or of the result
};

/// Enqueues the input of rank `data.rank`, from element `first` on: `count` elements at `pointer`,
/// which the device can write.
void fill(Backend& backend, NativeStream stream, const Case& data, void* pointer,
          std::size_t count);

/// How many of the `count` elements at `pointer` are not the sum (or what `op` is) of all ranks'
/// inputs, bit for bit. Not bit for bit, but within ranks * epsilon * (largest term), is `avg` over
/// a number of ranks that is no power of two, of f32 and f64 (and of fp8 over more than 8 ranks).
/// Waits for `stream`; allocates.
std::size_t count_wrong(Backend& backend, NativeStream stream, const Case& data,
                        const void* pointer, std::size_t count);

/// How many elements are not the input of rank `data.rank`, as `fill` makes it. Waits for `stream`;
/// allocates.
std::size_t count_changed(Backend& backend, NativeStream stream, const Case& data,
                          const void* pointer, std::size_t count);

}  // namespace plait::exact
