// Collectives that end in a function, compiled for the targets of this build.
#pragma once
#include <cstddef>

#include "plait/row_functions.hpp"
#include "plait/rows.hpp"

namespace plait::test {

/// Keeps each row as f32, and its number in front.
template <class T>
struct Keep {
  float* kept;  // [row][1 + columns]
  template <class Row>
  PLAIT_DEVICE void operator()(Row& row) const {
    float* const own = kept + row.number() * (1 + row.columns());
    if (row.is_first_thread()) *own = static_cast<float>(row.number());
    row.each([&](auto piece, auto& values) {
      for (unsigned i = 0; i < Row::width; ++i) own[1 + piece.column + i] = values[i];
    });
  }
};

using Norm = ResidualRmsNorm<bf16>;
using NormOfFloats = ResidualRmsNorm<float>;
using NormByTensor = ResidualRmsNorm<bf16, f8e4m3, Scaling::of_tensor, float>;
using NormByRow = ResidualRmsNorm<bf16, f8e4m3, Scaling::of_row>;
using NormToIntegers = ResidualRmsNorm<f16, std::int8_t, Scaling::of_row>;
using BiasGelu = BiasActivation<bf16, Gelu>;
using BiasSilu = BiasActivation<float, Silu, f8e5m2>;

/// `all_reduce_rows` and its like, in the files of the kernels.
template <class T, class Function>
void sum_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
              std::size_t columns, const Function& function, RowsBy by);
template <class T, class Function>
void scatter_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
                  std::size_t columns, const Function& function, RowsBy by);
template <class T, class Function>
void gather_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
                 std::size_t columns, const Function& function, RowsBy by);

}  // namespace plait::test
