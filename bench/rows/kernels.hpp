// What plait-bench-rows times, compiled for this build's targets.
#pragma once
#include <cstddef>

#include "plait/communicator.hpp"
#include "plait/row_functions.hpp"
#include "plait/rows.hpp"

namespace plait::bench {

using Norm = ResidualRmsNorm<bf16>;
using NormByRow = ResidualRmsNorm<bf16, f8e4m3, Scaling::of_row>;

template <class Function>
void sum_rows(Communicator& comm, StreamRef stream, const bf16* from, std::size_t rows,
              std::size_t columns, const Function& function, RowsBy by);

}  // namespace plait::bench
