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
  void* const handle =
      dlopen(environment("PLAIT_NCCL_LIB").value_or(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* error = dlerror();
    why_not = error ? error : "dlopen failed";
    return nullptr;
  }
  std::shared_ptr<NcclLibrary> library(new NcclLibrary(handle));
  const NcclLibrary& l = *library;
  why_not = "the library lacks functions of NCCL";
  if (!l.find("ncclGetErrorString") || !l.get_version || !l.get_unique_id || !l.comm_init_rank ||
      !l.comm_destroy || !l.all_reduce || !l.reduce_scatter || !l.all_gather || !l.broadcast ||
      !l.reduce || !l.send || !l.recv || !l.group_start || !l.group_end ||
      l.get_version.attempt(&library->version_) != 0)
    return nullptr;
  why_not.clear();
  return library;
}

void* NcclLibrary::find(const char* name) const { return dlsym(handle_, name); }

std::string NcclLibrary::version_text() const {
  // Before NCCL 2.9 the code was 1000 * major + 100 * minor + patch.
  const int unit = version_ < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version_ / unit, version_ % unit / 100, version_ % 100);
}

void NcclLibrary::check(Result result, const char* call) const {
  if (result == 0) return;
  const auto text_of = reinterpret_cast<const char* (*)(Result)>(find("ncclGetErrorString"));
  throw Error(ErrorCode::backend, fmt::format("{}: {}", call, text_of(result)));
}

}  // namespace plait::bench
