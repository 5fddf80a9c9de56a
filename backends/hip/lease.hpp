// Keeps memory alive that other processes have opened by an IPC handle. Unlike a file descriptor
// such a handle does not do that, and freeing memory under an open handle is undefined.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

#include "core/unique_fd.hpp"

namespace plait::hip {

/// A socket pair. The owner of the memory keeps one end and gives the other to its peers, which
/// hold their descriptors as long as they use the memory. The kernel tells the owner when the last
/// descriptor is closed, even if a peer was killed.
///
/// The socket holds the information that a peer needs to open the memory; every peer can read it
/// without removing it.
class Lease {
 public:
  /// `offer` is for all peers and has at most a few hundred bytes. Throws Error(backend) if the
  /// process has no descriptors left.
  explicit Lease(std::span<const std::byte> offer);

  /// The end for peers; may be taken once.
  UniqueFd take() { return std::move(theirs_); }
  /// Whether all peers have closed their descriptors. The answer is final, because descriptors are
  /// handed out only while the memory is being set up.
  bool ended() const;

  /// For peers: reads the owner's offer into `offer`.
  static void read(const UniqueFd& theirs, std::span<std::byte> offer);

 private:
  UniqueFd mine_, theirs_;
};

}  // namespace plait::hip
