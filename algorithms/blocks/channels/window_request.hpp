// What a rank asks of a window of a rank on another node, through channels that carry nothing else:
// those of the block behind the ones of collectives (`ChannelMemory::reserved`).
//
// Way 0 leads to the rank whose window it is: each chunk is a request, and the bytes of a put
// behind it. Way 1 leads back, and carries the bytes of gets alone. Chunks are numbered for as long
// as the communicator lives, so chunk k lies in slot k modulo `slots`, whatever call has sent it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

namespace plait {

/// As many bytes as a pack of any target, so the bytes behind it are aligned for packs.
struct alignas(64) WindowRequest {
  enum class Kind : std::uint32_t { put, get };

  Kind kind;
  std::uint32_t signals;         // that the owner counts once the bytes of this put are there
  std::uint64_t window, offset;  // the window's number in its heap
  std::uint64_t bytes;           // of this chunk of a put, or of the whole get

  static constexpr unsigned from_last_block = 1;  // of the channels' blocks, the last but one
  static constexpr unsigned slots = 8;            // per channel: one is filled while others travel
  static constexpr unsigned ask = 0, reply = 1;   // ways
};

}  // namespace plait
