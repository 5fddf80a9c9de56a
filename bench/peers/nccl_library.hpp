// The part of NCCL that the benchmark needs, loaded at run time. These declarations are our own;
// the values are NCCL's stable binary interface.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

struct CUstream_st;

namespace plait::bench {

class NcclLibrary {
 public:
  using Comm = struct NcclCommOpaque*;
  using Window = struct NcclWindowOpaque*;
  using Result = int;  // 0: success
  struct UniqueId {
    char bytes[128];
  };
  static constexpr int window_symmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC

  /// Sets NCCL_NVLS_ENABLE=0 unless it is set, because the documented numbers are without NVLink
  /// multicast for all contenders. `load` does so, too. Where several threads load, call it first,
  /// while no other thread reads the environment.
  static void turn_multicast_off();
  /// Loads PLAIT_NCCL_LIB, or the library `name` (NCCL or RCCL). If that fails, returns null and
  /// writes the reason to `why_not`.
  static std::shared_ptr<const NcclLibrary> load(const char* name, std::string& why_not);
  /// Does not unload NCCL, because its threads and exit handlers may outlive this object.
  ~NcclLibrary() = default;
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  /// NCCL's version code: 22809 for 2.28.9.
  int version() const noexcept { return version_; }
  std::string version_text() const;
  bool has_windows() const noexcept {
    return version_ >= 22700 && window_register && window_deregister && mem_alloc && mem_free;
  }
  bool has_small_floats() const noexcept { return version_ >= 22400; }

  /// Throws an Error(backend) that names the call, unless `result` is success.
  void check(Result result, const char* call) const;

  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*comm_init_rank)(Comm*, int ranks, UniqueId, int rank) = nullptr;
  Result (*comm_destroy)(Comm) = nullptr;
  Result (*all_reduce)(const void* send, void* recv, std::size_t count, int type, int op, Comm,
                       CUstream_st*) = nullptr;
  Result (*reduce_scatter)(const void* send, void* recv, std::size_t count, int type, int op, Comm,
                           CUstream_st*) = nullptr;
  Result (*all_gather)(const void* send, void* recv, std::size_t count, int type, Comm,
                       CUstream_st*) = nullptr;
  Result (*broadcast)(const void* send, void* recv, std::size_t count, int type, int root, Comm,
                      CUstream_st*) = nullptr;
  Result (*reduce)(const void* send, void* recv, std::size_t count, int type, int op, int root,
                   Comm, CUstream_st*) = nullptr;
  Result (*send)(const void* send, std::size_t count, int type, int peer, Comm,
                 CUstream_st*) = nullptr;
  Result (*recv)(void* recv, std::size_t count, int type, int peer, Comm, CUstream_st*) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*mem_alloc)(void**, std::size_t) = nullptr;
  Result (*mem_free)(void*) = nullptr;
  Result (*window_register)(Comm, void*, std::size_t, Window*, int flags) = nullptr;
  Result (*window_deregister)(Comm, Window) = nullptr;

 private:
  NcclLibrary() = default;
  template <class Function>
  bool find(Function& function, const char* symbol, bool required);

  void* handle_ = nullptr;
  const char* (*get_error_string)(Result) = nullptr;
  Result (*get_version)(int*) = nullptr;
  int version_ = 0;
};

}  // namespace plait::bench
