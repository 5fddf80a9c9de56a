#include "communicator/own_kernels/row_kernels.hpp"

namespace plait::test {

template <class T, class Function>
void sum_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
              std::size_t columns, const Function& function, RowsBy by) {
  all_reduce_rows(comm, stream, from, rows, columns, function, by);
}

template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t, const Norm&,
                       RowsBy);
template void sum_rows(Communicator&, StreamRef, const float*, std::size_t, std::size_t,
                       const NormOfFloats&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                       const NormByTensor&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                       const NormByRow&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const f16*, std::size_t, std::size_t,
                       const NormToIntegers&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                       const BiasGelu&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const float*, std::size_t, std::size_t,
                       const BiasSilu&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const f16*, std::size_t, std::size_t,
                       const SumOfSquares<f16>&, RowsBy);

}  // namespace plait::test
