// This rank's memory in the windows of a communicator on several nodes, for the proxy, which reads
// and writes it for ranks of other nodes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace plait {

/// One thread uses windows while others make and end them. It holds no window: the destructor of
/// one waits for the device, and so perhaps for a kernel that waits for that thread.
class WindowTable {
 public:
  struct Piece {
    std::byte* local;
    std::size_t bytes;
    std::uint64_t memory;  // its `Backend::memory_number`; 0: it has none
  };
  /// `numbers` rise.
  void add(std::size_t number, const Piece& piece) {
    const std::lock_guard lock(mutex_);
    pieces_[number] = piece;
    newest_ = number;
  }
  /// Returns after the last `use`.
  void remove(std::size_t number) {
    const std::lock_guard lock(mutex_);
    pieces_.erase(number);
  }

  /// `not_yet`: another rank has the window already, and this one is about to.
  enum class Found { here, not_yet, gone };
  /// Calls `body(piece)` if the window is here.
  template <class Body>
  Found use(std::uint64_t number, Body body) {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(number);
    if (found == pieces_.end()) return number > newest_ ? Found::not_yet : Found::gone;
    body(found->second);
    return Found::here;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Piece> pieces_;
  std::uint64_t newest_ = 0;
};

}  // namespace plait
