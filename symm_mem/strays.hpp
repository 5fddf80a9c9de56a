// Sockets that a stranger has connected to: closed without waiting for anything that the stranger
// has put into them.
#pragma once
#include <cstddef>
#include <vector>

#include "core/unique_fd.hpp"

namespace plait {

/// Closing a socket also closes the descriptors in its queue, and close() of another one's
/// descriptor may take as long as its owner likes: a TCP socket that lingers, a file of a FUSE
/// server. The last reference to such sockets is therefore dropped by a thread that ends: no close
/// waits for an exiting thread's linger, and if something else blocks, only that thread does.
class Strays {
 public:
  Strays() = default;
  ~Strays() { dispose(); }
  Strays(const Strays&) = delete;
  Strays& operator=(const Strays&) = delete;

  void add(UniqueFd stray) { strays_.push_back(std::move(stray)); }
  std::size_t size() const noexcept { return strays_.size(); }
  /// Never blocks. Starts a thread if there are any.
  void dispose() noexcept;

 private:
  std::vector<UniqueFd> strays_;
};

}  // namespace plait
