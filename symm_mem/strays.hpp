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
class Strays {
 public:
  Strays() = default;
  ~Strays() { dispose(); }
  Strays(const Strays&) = delete;
  Strays& operator=(const Strays&) = delete;

  void add(UniqueFd stray) { strays_.push_back(std::move(stray)); }
  std::size_t size() const noexcept { return strays_.size(); }
  /// Never blocks. Starts a thread if there are strays.
  void dispose() noexcept;

 private:
  std::vector<UniqueFd> strays_;
};

}  // namespace plait
