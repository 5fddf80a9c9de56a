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
  using Stream = CUstream_st*;
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

  /// A function of the library. A call of it throws an Error(backend) that names it, unless its
  /// result is success.
  template <class... Arguments>
  class Function {
   public:
    Function(const NcclLibrary& library, const char* name)
        : library_(library),
          name_(name),
          function_(reinterpret_cast<Result (*)(Arguments...)>(library.find(name))) {}
    void operator()(Arguments... arguments) const { library_.check(attempt(arguments...), name_); }
    /// The same without an error, for destructors.
    Result attempt(Arguments... arguments) const { return function_(arguments...); }
    explicit operator bool() const noexcept { return function_ != nullptr; }

   private:
    const NcclLibrary& library_;
    const char* name_;
    Result (*function_)(Arguments...);
  };

 private:
  explicit NcclLibrary(void* handle) : handle_(handle) {}
  void* find(const char* name) const;
  void check(Result result, const char* call) const;

  void* handle_;  // stands before the functions, which are looked up in it
  int version_ = 0;

 public:
  Function<int*> get_version{*this, "ncclGetVersion"};
  Function<UniqueId*> get_unique_id{*this, "ncclGetUniqueId"};
  Function<Comm*, int /*ranks*/, UniqueId, int /*rank*/> comm_init_rank{*this, "ncclCommInitRank"};
  Function<Comm> comm_destroy{*this, "ncclCommDestroy"};
  // `send`, `recv`, the count, the type, and what else: the operation, the root or the peer.
  Function<const void*, void*, std::size_t, int, int, Comm, Stream> all_reduce{*this,
                                                                               "ncclAllReduce"},
      reduce_scatter{*this, "ncclReduceScatter"}, broadcast{*this, "ncclBroadcast"};
  Function<const void*, void*, std::size_t, int, Comm, Stream> all_gather{*this, "ncclAllGather"};
  Function<const void*, void*, std::size_t, int, int, int, Comm, Stream> reduce{*this,
                                                                                "ncclReduce"};
  Function<const void*, std::size_t, int, int, Comm, Stream> send{*this, "ncclSend"};
  Function<void*, std::size_t, int, int, Comm, Stream> recv{*this, "ncclRecv"};
  Function<> group_start{*this, "ncclGroupStart"}, group_end{*this, "ncclGroupEnd"};
  // Old versions lack these.
  Function<void**, std::size_t> mem_alloc{*this, "ncclMemAlloc"};
  Function<void*> mem_free{*this, "ncclMemFree"};
  Function<Comm, void*, std::size_t, Window*, int /*flags*/> window_register{
      *this, "ncclCommWindowRegister"};
  Function<Comm, Window> window_deregister{*this, "ncclCommWindowDeregister"};
};

}  // namespace plait::bench
