// The part of NCCL that this program needs, found at run time. The declarations are our own; the
// values are NCCL's stable binary interface.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>

namespace poisson {

/// An NCCL communicator of the ranks of an MPI communicator, on their current CUDA devices.
/// `stream` is a cudaStream_t.
class Nccl {
 public:
  /// Collective. Returns null on all ranks, and the reason in `why_not`, if a rank has no NCCL
  /// (libnccl.so.2, or the library PLAIT_NCCL_LIB). Sets NCCL_NVLS_ENABLE=0, unless it is set.
  static std::unique_ptr<Nccl> create(MPI_Comm comm, std::string& why_not);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // These throw std::runtime_error, which names NCCL's call and error.
  void sum(double* numbers, std::size_t count, void* stream);  ///< in place
  void send(const double* data, std::size_t count, int to, void* stream);
  void recv(double* data, std::size_t count, int from, void* stream);
  void group_start();
  void group_end();

 private:
  struct Library;
  Nccl(std::unique_ptr<Library> library, MPI_Comm comm);

  std::unique_ptr<Library> library_;
  struct NcclCommOpaque* comm_ = nullptr;
};

}  // namespace poisson
