// The ranks of a communicator meet inside a call, in host memory that all of them have mapped.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plait/bootstrap.hpp"

namespace plait {

/// Any thread may make a call of a communicator, and MPI may forbid calls on that thread
/// (MPI_THREAD_FUNNELED), so this bootstrap never calls MPI. It is also faster: an exchange takes
/// as long as the ranks need to see each other's stores.
///
/// It differs from other bootstraps in two ways. A rank that does not come within `timeout()` is an
/// `Error(timeout)`, because the caller waits for it in a call. And a rank that gives up tells the
/// others nothing here, because its communicator is broken and the peers' interrupts tell them.
///
/// A rank's *desk* holds its deposits of two exchanges, by parity. Two are enough: a rank deposits
/// for exchange k + 2 only after all ranks have come to exchange k + 1, so after all ranks have
/// read exchange k.
class CallBootstrap final : public Bootstrap {
 public:
  /// Bytes of zeroed memory, aligned to 64, that each rank must provide.
  static std::size_t desk_bytes() noexcept;

  /// `desks`: one per rank, in memory that all ranks have mapped and that outlives this object.
  /// Local.
  CallBootstrap(const std::vector<void*>& desks, int rank);

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(desks_.size()); }

  using Bootstrap::all_gather;
  using Bootstrap::broadcast;
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void barrier() override;
  /// Throws Error(unsupported).
  std::unique_ptr<Bootstrap> split(int color, int key) override;
  void abandon(const std::string& why, bool rank_lost) noexcept override;

 private:
  struct Desk;
  template <class Take>
  void exchange(const struct CallPiece& piece, const void* mine, Take take);
  void wait_for(int rank);

  std::vector<Desk*> desks_;
  int rank_;
  std::uint64_t exchanges_ = 0;
  std::string failure_;  // why no call will succeed any more
};

}  // namespace plait
