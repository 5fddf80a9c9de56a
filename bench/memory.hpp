// Buffers of the benchmark: one pair per kind of memory, as large as the largest message, with
// guard bands around each buffer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "plait/communicator.hpp"
#include "plait/types.hpp"

namespace plait::bench {

/// Bytes before and after a buffer that no call may write. A multiple of every alignment that
/// matters.
inline constexpr std::size_t guard_bytes = 4096;

/// Memory and the objects that keep it alive.
struct Allocation {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
  std::shared_ptr<Window> window{};  // null if it has none; ends before the owner
};
using Allocate = std::function<Allocation(std::size_t bytes)>;

/// Bytes of the largest element.
inline constexpr std::size_t largest_element = [] {
  std::size_t largest = 0;
  for (int type = 0; type < data_type_count; ++type)
    largest = std::max(largest, size_of(static_cast<DataType>(type)));
  return largest;
}();

class Arena {
 public:
  /// Two buffers for messages of up to `bytes` bytes.
  Arena(const Allocate& allocate, std::size_t bytes)
      : send_(allocate(bytes + 2 * guard_bytes)), recv_(allocate(bytes + 2 * guard_bytes)) {}
  std::byte* send() const noexcept { return send_.data + guard_bytes; }
  std::byte* recv() const noexcept { return recv_.data + guard_bytes; }
  const std::shared_ptr<Window>& send_window() const noexcept { return send_.window; }
  const std::shared_ptr<Window>& recv_window() const noexcept { return recv_.window; }

 private:
  Allocation send_, recv_;
};

/// Symmetric memory. Collective.
Allocate symmetric_memory(Communicator& comm);
/// Ordinary memory of this rank's device, attached; on the host, memory files, because processes
/// can't map each other's other memory. Collective.
Allocate attached_memory(Communicator& comm);
/// Ordinary memory of this rank's device. Collective: all ranks throw if one runs out.
Allocate ordinary_memory(Communicator& comm);

/// Bytes of host memory that this machine, or the container on it, has for this process.
std::size_t available_host_memory();

inline StreamRef stream_ref(NativeStream stream) { return {static_cast<CUstream_st*>(stream)}; }

}  // namespace plait::bench
