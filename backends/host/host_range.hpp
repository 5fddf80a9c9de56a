// Symmetric memory in host memory, for ranks on CPUs and for GPUs that can't reach each other's
// memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/backend.hpp"

namespace plait::host {

/// All ranks' copies of one symmetric allocation, one after the other. Ranks of a process may share
/// one object. Each copy is a nameless file, so a killed process leaves nothing behind.
class HostRange : public ReservedRange {
 public:
  static constexpr std::size_t page = 4096;

  /// `bytes` is rounded up to whole pages.
  HostRange(int ranks, std::size_t bytes, Commit commit);
  ~HostRange() override;
  HostRange(const HostRange&) = delete;
  HostRange& operator=(const HostRange&) = delete;

  std::byte* address(int rank) const noexcept override {
    return base_ + static_cast<std::size_t>(rank) * stride_;
  }
  WindowView view(int rank) const noexcept override {
    return {.own = address(rank),
            .stride = static_cast<std::ptrdiff_t>(stride_),
            .distances = nullptr,
            .rank = rank};
  }
  UniqueFd create_local(int rank) override;
  /// Throws Error(backend) if `descriptor` is not a file that `create_local` makes: a memory file
  /// of this size that can't be resized.
  void import_peer(int rank, UniqueFd descriptor) override;
  bool commits_on_touch() const noexcept override { return commit_ == Commit::on_touch; }
  std::size_t committed(int rank) const override;

 protected:
  std::size_t stride() const noexcept { return stride_; }
  /// Called once for each copy when it has been mapped; one call at a time.
  virtual void mapped(std::byte*, std::size_t) {}

 private:
  std::size_t size() const noexcept { return stride_ * is_mapped_.size(); }
  void map(int rank, int file);
  void commit_all(int file) const;

  std::mutex mutex_;
  std::size_t stride_;
  Commit commit_;
  std::byte* base_ = nullptr;
  std::vector<bool> is_mapped_;
};

/// The range of this process for `token`: ranks that are threads get the range that the first of
/// them made.
std::shared_ptr<ReservedRange> shared_range(int ranks, std::size_t bytes, std::uint64_t token,
                                            Commit commit);

}  // namespace plait::host
