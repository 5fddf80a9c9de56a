#include "bench/rows/kernels.hpp"

namespace plait::bench {

template <class Function>
void sum_rows(Communicator& comm, StreamRef stream, const bf16* from, std::size_t rows,
              std::size_t columns, const Function& function, RowsBy by) {
  all_reduce_rows(comm, stream, from, rows, columns, function, by);
}
template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t, const Norm&,
                       RowsBy);
template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                       const NormByRow&, RowsBy);

}  // namespace plait::bench
