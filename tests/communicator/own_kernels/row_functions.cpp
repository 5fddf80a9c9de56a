#include "communicator/own_kernels/row_kernels.hpp"

namespace plait::test {

#define PLAIT_TEST_ROWS(name, collective)                                          \
  template <class T, class Function>                                               \
  void name(Communicator& comm, StreamRef stream, const T* from, std::size_t rows, \
            std::size_t columns, const Function& function, RowsBy by) {            \
    collective(comm, stream, from, rows, columns, function, by);                   \
  }
PLAIT_TEST_ROWS(sum_rows, all_reduce_rows)

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
