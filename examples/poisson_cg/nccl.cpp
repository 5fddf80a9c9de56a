#include "nccl.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace poisson {
namespace {
constexpr int f64 = 8, add = 0;  // ncclDataType_t, ncclRedOp_t
}

struct Nccl::Library {
  using Comm = NcclCommOpaque*;
  struct UniqueId {
    char bytes[128];
  };

  /// False, and the reason, if there is no NCCL. The library is never closed, because NCCL's
  /// threads may outlive its communicators.
  bool load(std::string& why_not) {
    const char* named = std::getenv("PLAIT_NCCL_LIB");
    void* handle =
        dlopen(named != nullptr && *named != 0 ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* error = dlerror();
      why_not = error != nullptr ? error : "dlopen failed";
      return false;
    }
    const auto find = [&](auto& function, const char* symbol) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      if (function == nullptr) why_not = std::string("the library has no ") + symbol;
      return function != nullptr;
    };
    return find(error_string, "ncclGetErrorString") && find(unique_id, "ncclGetUniqueId") &&
           find(init_rank, "ncclCommInitRank") && find(destroy, "ncclCommDestroy") &&
           find(all_reduce, "ncclAllReduce") && find(send, "ncclSend") && find(recv, "ncclRecv") &&
           find(group_start, "ncclGroupStart") && find(group_end, "ncclGroupEnd");
  }

  void check(int result, const char* call) const {
    if (result != 0) throw std::runtime_error(std::string(call) + ": " + error_string(result));
  }

  const char* (*error_string)(int) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(Comm*, int ranks, UniqueId, int rank) = nullptr;
  int (*destroy)(Comm) = nullptr;
  int (*all_reduce)(const void* send, void* recv, std::size_t count, int type, int op, Comm,
                    void* stream) = nullptr;
  int (*send)(const void* send, std::size_t count, int type, int peer, Comm,
              void* stream) = nullptr;
  int (*recv)(void* recv, std::size_t count, int type, int peer, Comm, void* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
};

std::unique_ptr<Nccl> Nccl::create(MPI_Comm comm, std::string& why_not) {
  setenv("NCCL_NVLS_ENABLE", "0",
         0);  // NOLINT(concurrency-mt-unsafe): before any other thread looks
  auto library = std::make_unique<Library>();
  const bool loaded = library->load(why_not);
  int everywhere = loaded ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &everywhere, 1, MPI_INT, MPI_MIN, comm);
  if (!loaded) return nullptr;
  if (everywhere == 0) {
    why_not = "another rank found none";
    return nullptr;
  }
  return std::unique_ptr<Nccl>(new Nccl(std::move(library), comm));
}

Nccl::Nccl(std::unique_ptr<Library> library, MPI_Comm comm) : library_(std::move(library)) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  Library::UniqueId id{};
  if (rank == 0) library_->check(library_->unique_id(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, comm);
  library_->check(library_->init_rank(&comm_, ranks, id, rank), "ncclCommInitRank");
}

Nccl::~Nccl() {
  if (comm_ != nullptr) library_->destroy(comm_);
}

void Nccl::sum(double* numbers, std::size_t count, void* stream) {
  library_->check(library_->all_reduce(numbers, numbers, count, f64, add, comm_, stream),
                  "ncclAllReduce");
}
void Nccl::send(const double* data, std::size_t count, int to, void* stream) {
  library_->check(library_->send(data, count, f64, to, comm_, stream), "ncclSend");
}
void Nccl::recv(double* data, std::size_t count, int from, void* stream) {
  library_->check(library_->recv(data, count, f64, from, comm_, stream), "ncclRecv");
}
void Nccl::group_start() { library_->check(library_->group_start(), "ncclGroupStart"); }
void Nccl::group_end() { library_->check(library_->group_end(), "ncclGroupEnd"); }

}  // namespace poisson
