// NCCL as a peer, in ordinary memory and in symmetric windows.
#pragma once
#include <memory>
#include <string>

#include "bench/contender.hpp"
#include "bench/peers/nccl_library.hpp"

namespace plait::bench {

/// An NCCL communicator of the same ranks, and memory registered with it. The memory and the
/// contenders keep it alive.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  /// Collective. Null on all ranks if a rank lacks NCCL or can't use it on its device; `why_not`
  /// gets the reason.
  static std::shared_ptr<NcclGroup> create(Communicator& comm, std::string& why_not);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const NcclLibrary& library() const noexcept { return *library_; }
  NcclLibrary::Comm native() const noexcept { return nccl_; }

  bool has_windows() const noexcept { return library_->has_windows(); }
  /// Memory in a symmetric window. Collective: all ranks throw if one can't allocate.
  Allocate window_memory();
  /// `peer:nccl` or `peer:nccl-symmetric`, depending on `memory`; the second needs an `arena` made
  /// with `window_memory()`.
  std::unique_ptr<Contender> contender(Memory memory, const Arena& arena);

 private:
  NcclGroup(Communicator& comm, std::shared_ptr<const NcclLibrary> library)
      : comm_(comm), library_(std::move(library)) {}

  Communicator& comm_;
  std::shared_ptr<const NcclLibrary> library_;
  NcclLibrary::Comm nccl_ = nullptr;
};

}  // namespace plait::bench
