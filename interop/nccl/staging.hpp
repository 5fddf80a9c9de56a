// Other memory in place of a caller's buffer: one that is not aligned to its elements, one that
// overlaps that of another message in its group, or one whose elements are multiplied. NCCL allows
// them all. The copies cost more than the call often does; it is a way that works, not a fast one.
#pragma once
#include <cstddef>
#include <memory>

#include "interop/nccl/comm.hpp"

namespace plait::nccl {

inline bool is_aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

/// Enqueues the multiplication of `count` elements, which are aligned. `to` is `from` or disjoint.
void multiply(Backend& backend, NativeStream stream, const PreMulSum& op, const void* from,
              void* to, std::size_t count);

/// Stands in for one buffer of one call. The memory is used again when the stream has passed the
/// call. In a capture it stays as long as the communicator, because the graph may run at any time.
class Staging {
 public:
  Staging(const char* call, std::shared_ptr<Comm> comm, Communicator& of, std::size_t bytes,
          NativeStream stream);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void* memory() const noexcept { return memory_; }
  /// Before the call.
  void copy_in(const void* from) { copy(memory_, from); }
  /// After the call has been enqueued.
  void copy_out(void* to) { copy(to, memory_); }

 private:
  void copy(void* to, const void* from);

  std::shared_ptr<Comm> comm_;
  Backend& backend_;
  std::size_t bytes_;
  NativeStream stream_;
  bool is_captured_ = false;
  void* memory_ = nullptr;
};

}  // namespace plait::nccl
