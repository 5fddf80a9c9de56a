// Closes sockets that a stranger has connected to, without waiting for anything that the stranger
// has put into them.
#pragma once
#include <cstddef>
#include <vector>

#include "core/unique_fd.hpp"

namespace plait {

/// Closing a socket also closes the descriptors in its queue, and close() of a stranger's
/// descriptor may take as long as its owner likes: a TCP socket that lingers, a file of a FUSE
/// server. So a thread that ends drops the last reference to such sockets. No close waits for an
/// exiting thread's linger, and if something else blocks, it blocks only that thread.
class StrangerSockets {
 public:
  StrangerSockets() = default;
  ~StrangerSockets() { dispose(); }
  StrangerSockets(const StrangerSockets&) = delete;
  StrangerSockets& operator=(const StrangerSockets&) = delete;

  void add(UniqueFd socket) { strangers_.push_back(std::move(socket)); }
  std::size_t size() const noexcept { return strangers_.size(); }
  /// Shuts a listener. Strangers may be in its queue, and closing it would close the descriptors
  /// that they have sent, so those in it are taken out.
  void shut(UniqueFd listener);
  /// Never blocks. Starts a thread if there are sockets.
  void dispose() noexcept;

 private:
  std::vector<UniqueFd> strangers_;
};

/// The next connection in the queue of the listener; not valid: see errno.
UniqueFd accept_from(const UniqueFd& listener);

}  // namespace plait
