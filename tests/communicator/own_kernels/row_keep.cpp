#include "communicator/own_kernels/row_kernels.hpp"

namespace plait::test {

#define PLAIT_TEST_ROWS(name, collective)                                          \
  template <class T, class Function>                                               \
  void name(Communicator& comm, StreamRef stream, const T* from, std::size_t rows, \
            std::size_t columns, const Function& function, RowsBy by) {            \
    collective(comm, stream, from, rows, columns, function, by);                   \
  }
PLAIT_TEST_ROWS(sum_rows, all_reduce_rows)
PLAIT_TEST_ROWS(scatter_rows, reduce_scatter_rows)
PLAIT_TEST_ROWS(gather_rows, all_gather_rows)

template void sum_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                       const Keep<bf16>&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const f16*, std::size_t, std::size_t,
                       const Keep<f16>&, RowsBy);
template void sum_rows(Communicator&, StreamRef, const float*, std::size_t, std::size_t,
                       const Keep<float>&, RowsBy);
template void scatter_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                           const Keep<bf16>&, RowsBy);
template void gather_rows(Communicator&, StreamRef, const bf16*, std::size_t, std::size_t,
                          const Keep<bf16>&, RowsBy);

}  // namespace plait::test
