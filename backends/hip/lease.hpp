// Keeps memory alive that other processes have opened by an IPC handle: unlike a file descriptor
// such a handle does not, and freeing memory under an open one is undefined.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

#include "core/unique_fd.hpp"

namespace plait::hip {

/// A socket pair. The owner of the memory keeps one end and gives the other to its peers, who hold
/// on to their descriptors as long as they use the memory. The kernel tells the owner when the last
/// of them is closed, also where a peer was killed.
///
/// What a peer must know to open the memory waits in the socket, where everyone can read it without
/// taking it away.
class Lease {
 public:
  /// `offer` is for all peers; at most a few hundred bytes. Throws Error(backend) if the process
  /// has no descriptors left.
  explicit Lease(std::span<const std::byte> offer);

  /// The end for peers; may be taken once.
  UniqueFd take() { return std::move(theirs_); }
  /// Whether no peer holds a descriptor any more (or ever again: they are only handed out while the
  /// memory is being set up).
  bool ended() const;

  /// What the owner offers: fills `offer`. For peers.
  static void read(const UniqueFd& theirs, std::span<std::byte> offer);

 private:
  UniqueFd mine_, theirs_;
};

}  // namespace plait::hip
