#include "bench/peers/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "core/environment.hpp"
#include "plait/error.hpp"

namespace plait::bench {

void NcclLibrary::turn_multicast_off() {
  // Safe, because no other thread reads the environment yet. Where the variable is set, nothing
  // changes.
  setenv("NCCL_NVLS_ENABLE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
}

std::shared_ptr<const NcclLibrary> NcclLibrary::load(const char* name, std::string& why_not) {
  turn_multicast_off();
  std::shared_ptr<NcclLibrary> library(new NcclLibrary);
  library->handle_ =
      dlopen(environment("PLAIT_NCCL_LIB").value_or(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle_) {
    const char* error = dlerror();
    why_not = error ? error : "dlopen failed";
    return nullptr;
  }
  NcclLibrary& l = *library;
  const bool complete =
      l.find(l.get_version, "ncclGetVersion", true) &&
      l.find(l.get_error_string, "ncclGetErrorString", true) &&
      l.find(l.get_unique_id, "ncclGetUniqueId", true) &&
      l.find(l.comm_init_rank, "ncclCommInitRank", true) &&
      l.find(l.comm_destroy, "ncclCommDestroy", true) &&
      l.find(l.all_reduce, "ncclAllReduce", true) &&
      l.find(l.reduce_scatter, "ncclReduceScatter", true) &&
      l.find(l.all_gather, "ncclAllGather", true) && l.find(l.broadcast, "ncclBroadcast", true) &&
      l.find(l.reduce, "ncclReduce", true) && l.find(l.send, "ncclSend", true) &&
      l.find(l.recv, "ncclRecv", true) && l.find(l.group_start, "ncclGroupStart", true) &&
      l.find(l.group_end, "ncclGroupEnd", true) && l.find(l.mem_alloc, "ncclMemAlloc", false) &&
      l.find(l.mem_free, "ncclMemFree", false) &&
      l.find(l.window_register, "ncclCommWindowRegister", false) &&
      l.find(l.window_deregister, "ncclCommWindowDeregister", false);
  if (!complete || l.get_version(&l.version_) != 0) {
    why_not = "the library lacks functions of NCCL";
    return nullptr;
  }
  return library;
}

template <class Function>
bool NcclLibrary::find(Function& function, const char* symbol, bool required) {
  function = reinterpret_cast<Function>(dlsym(handle_, symbol));
  return function || !required;
}

std::string NcclLibrary::version_text() const {
  // Before NCCL 2.9 the code was 1000 * major + 100 * minor + patch.
  const int unit = version_ < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version_ / unit, version_ % unit / 100, version_ % 100);
}

void NcclLibrary::check(Result result, const char* call) const {
  if (result != 0)
    throw Error(ErrorCode::backend, fmt::format("{}: {}", call, get_error_string(result)));
}

}  // namespace plait::bench
