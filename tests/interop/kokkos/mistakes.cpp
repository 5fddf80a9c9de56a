// Calls that must not compile. mistakes_test.sh compares what the compiler says with the sentences
// after `says:`, each once for every line below it, and that it says no more.
#include <Kokkos_Core.hpp>
#include <complex>
#include <plait/kokkos.hpp>
#include <type_traits>
#include <vector>

namespace kokkos = plait::kokkos;
using plait::ReduceOp;

/// Like an execution space of a target that Plait does not have.
struct Elsewhere {
  using execution_space = Elsewhere;
  using memory_space = Elsewhere;
  using size_type = std::size_t;
};
/// Like Kokkos::Cuda: its memory is not the host's.
struct Device : Elsewhere {
  using array_layout = Kokkos::LayoutLeft;
  using execution_space = Device;
  using memory_space = Device;
  CUstream_st* cuda_stream() const;
};
/// Like Kokkos::CudaUVMSpace: its memory is the host's, too.
struct Managed {
  using execution_space = Device;
  using memory_space = Managed;
};
template <>
struct Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, Managed> {
  enum : bool { accessible = true };
};
template <>
struct Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, Device> {
  enum : bool { accessible = false };
};
template <>
struct Kokkos::SpaceAccessibility<Elsewhere, Kokkos::HostSpace> {
  enum : bool { accessible = false };
};
template <>
struct Kokkos::SpaceAccessibility<Device, Kokkos::HostSpace> {
  enum : bool { accessible = false };
};

using Host = Kokkos::HostSpace;
template <class Data, class Layout = Kokkos::LayoutRight>
using View = Kokkos::View<Data, Layout, Host>;

/// A view of another layout.
struct Tiled {
  using value_type = float;
  using non_const_value_type = float;
  using array_layout = Tiled;
  using memory_space = Host;
  using execution_space = Kokkos::DefaultHostExecutionSpace;
};
template <>
struct Kokkos::is_view<Tiled> : std::true_type {};

void mistakes(plait::Communicator& comm, std::vector<double>& vector) {
  const Kokkos::DefaultHostExecutionSpace exec;
  const View<double> scalar;
  const View<double*> x;
  const View<double**> matrix;
  const plait::Communicator::BlocksOf blocks;
  const std::vector<std::size_t> counts;
  sizeof(kokkos::SymmetricBuffer<float, Device>);

  // clang-format off: a mistake per line, below its sentence
  // says: an argument that should be a Kokkos::View is none
  kokkos::all_reduce(exec, comm, vector, ReduceOp::sum);
  kokkos::all_reduce(comm, x.data(), ReduceOp::sum);
  kokkos::send(exec, comm, x.extent(0), 0);
  // says: the first argument is neither a communicator nor a Kokkos execution space
  kokkos::broadcast(vector, comm, x, 0);
  kokkos::barrier(Host(), comm);
  kokkos::send(0, comm, x, 0);
  // says: the execution space runs neither on CUDA, nor on HIP, nor on the host
  kokkos::barrier(Elsewhere(), comm);
  kokkos::stream_of(Elsewhere());
  kokkos::communicator_options(Elsewhere());
  // says: the execution space can't access the view's memory space
  kokkos::all_gather(Device(), comm, x);
  // says: Plait has no data type for the view's value type
  kokkos::all_reduce(comm, View<std::complex<long double>*>(), ReduceOp::sum);
  kokkos::all_reduce(comm, View<Kokkos::ValLocScalar<double, long>*>(), ReduceOp::minloc);
  kokkos::all_gather(comm, View<wchar_t*>());
  // says: the view that receives the result has a const value type
  kokkos::all_reduce(comm, x, View<const double*>(), ReduceOp::sum);
  kokkos::all_to_all(comm, View<const float*>());
  kokkos::recv(comm, View<const int*>(), 0);
  kokkos::reduce_scatter_v(comm, View<long*>(), counts, View<const long*>(), ReduceOp::sum);
  // says: the view's layout is none of LayoutLeft, LayoutRight and LayoutStride
  kokkos::all_reduce(comm, Tiled(), ReduceOp::sum);
  // says: src and dst have different value types
  kokkos::all_reduce(comm, x, View<float*>(), ReduceOp::sum);
  kokkos::reduce(exec, comm, View<const int*>(), View<long*>(), ReduceOp::sum, 0);
  kokkos::send_recv(comm, x, 0, View<float**>(), 0);
  kokkos::all_to_all_v(comm, x, blocks, View<int*>(), blocks);
  kokkos::reduce_scatter_v(exec, comm, x, counts, View<long*>(), ReduceOp::sum);
  // says: src and dst have different ranks
  kokkos::all_reduce(comm, x, matrix, ReduceOp::sum);
  kokkos::all_to_all(comm, matrix, x);
  // says: a view with a block for each rank must have the rank of the view of one block
  kokkos::all_gather(comm, matrix, x);
  kokkos::scatter(comm, scalar, scalar, 0);
  kokkos::gather(comm, scalar, matrix, 0);
  // says: a view of rank 0 has no blocks, one for each rank
  kokkos::all_gather(comm, scalar);
  kokkos::all_to_all(comm, scalar, scalar);
  // says: one of src and dst is LayoutLeft, the other
  kokkos::all_reduce(comm, matrix, View<double**, Kokkos::LayoutLeft>(), ReduceOp::max);
  // says: the view with the blocks of all ranks has rank 1
  kokkos::all_to_all_v(comm, matrix, blocks, x, blocks);
  kokkos::all_to_all_v(comm, x, blocks, scalar, blocks);
  kokkos::all_gather_v(comm, x, matrix, blocks);
  kokkos::scatter_v(comm, matrix, blocks, x, 0);
  kokkos::reduce_scatter_v(comm, View<float**>(), counts, View<float*>(), ReduceOp::sum);
  // says: the view's value type is not the buffer's
  kokkos::SymmetricBuffer<float, Host>().view<double**>(1, 2);
  // says: symmetric memory is a GPU's or the host's alone
  sizeof(kokkos::SymmetricBuffer<float, Managed>);
  // clang-format on
}
