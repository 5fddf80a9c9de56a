// NCCL as a peer: in ordinary memory, and in symmetric windows.
#pragma once
#include <memory>
#include <string>

#include "bench/contender.hpp"
#include "bench/peers/nccl_library.hpp"

namespace plait::bench {

/// An NCCL communicator of the same ranks, and memory that is registered with it. Memory and
/// contenders keep it alive.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  /// Collective. Null on all ranks, and the reason in `why_not`, if NCCL or its use on a rank's
  /// device is not to be had.
  static std::shared_ptr<NcclGroup> create(Communicator& comm, std::string& why_not);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const NcclLibrary& library() const noexcept { return *library_; }
  NcclLibrary::Comm native() const noexcept { return nccl_; }

  bool has_windows() const noexcept { return library_->has_windows(); }
  /// Memory in a symmetric window. Collective; all ranks throw if one can't.
  Allocate window_memory();
  /// `peer:nccl` or `peer:nccl-symmetric`, by `memory`; for the second, `arena` must be of
  /// `window_memory()`.
  std::unique_ptr<Contender> contender(Memory memory, const Arena& arena);

 private:
  NcclGroup(Communicator& comm, std::shared_ptr<const NcclLibrary> library)
      : comm_(comm), library_(std::move(library)) {}

  Communicator& comm_;
  std::shared_ptr<const NcclLibrary> library_;
  NcclLibrary::Comm nccl_ = nullptr;
};

}  // namespace plait::bench
