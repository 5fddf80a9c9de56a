#include "transport/mpi/mpi_extensions.hpp"

#include <dlfcn.h>
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace plait::transport {
namespace {

/// Calls a function `int name(void)` of this process's MPI. False if MPI has none of that name. The
/// headers tell only which MPI this library was compiled with.
bool ask(const char* name) {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  return found != nullptr && reinterpret_cast<int (*)()>(found)() == 1;
}

}  // namespace

bool mpi_takes(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host:
      return true;
    case MemoryKind::cuda:
      return ask("MPIX_Query_cuda_support");
    case MemoryKind::hip:
      return ask("MPIX_Query_rocm_support");
  }
  return false;
}

bool is_process_lost([[maybe_unused]] int status) {
#ifdef MPIX_ERR_PROC_FAILED
  int kind = MPI_SUCCESS;
  return MPI_Error_class(status, &kind) == MPI_SUCCESS && kind == MPIX_ERR_PROC_FAILED;
#else
  return false;
#endif
}

}  // namespace plait::transport
