// The buffers of each collective: their sizes, and the ranks that have them.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <string_view>

#include "plait/call.hpp"
#include "plait/collective_table.h"

namespace plait {

/// A buffer of a collective: its size, and the ranks that have one.
struct BufferFacts {
  enum class Size { nothing, one, one_per_rank } size;  // blocks of `Call::count` elements
  bool root_only;                                       // other ranks may pass anything
};

struct CollectiveFacts {
  bool reduces;
  bool rooted;
  BufferFacts send, recv;
};

namespace detail {
constexpr CollectiveFacts make_facts(Collective collective) {
  using enum BufferFacts::Size;
  constexpr BufferFacts none{nothing, false}, block{one, false}, blocks{one_per_rank, false},
      root_block{one, true}, root_blocks{one_per_rank, true};
  constexpr bool op = true, no_op = false, root = true, no_root = false;
  // NOLINTBEGIN(bugprone-branch-clone): two collectives may have the same facts
  switch (collective) {
#define PLAIT_FACTS_OF(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) \
  case Collective::NAME:                                       \
    return {OP, ROOT, SEND, RECV};
#define PLAIT_FACTS_OF_OTHER(NAME, ENUMERATOR, SEND, RECV) \
  case Collective::NAME:                                   \
    return {false, false, SEND, RECV};
    PLAIT_COLLECTIVES(PLAIT_FACTS_OF, PLAIT_FACTS_OF_OTHER)
#undef PLAIT_FACTS_OF
#undef PLAIT_FACTS_OF_OTHER
  }
  // NOLINTEND(bugprone-branch-clone)
  return {false, false, none, none};
}
/// By the collective's number, and one more entry for a value that is no collective.
inline constexpr auto facts = [] {
  std::array<CollectiveFacts, static_cast<std::size_t>(collective_count) + 1> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = make_facts(static_cast<Collective>(i));
  return all;
}();
}  // namespace detail

/// A value that is no collective has no buffers.
constexpr const CollectiveFacts& facts_of(Collective collective) {
  return detail::facts[is_valid(collective) ? static_cast<std::size_t>(collective)
                                            : static_cast<std::size_t>(collective_count)];
}

/// The elements that the operation is for, for errors: "an integer type".
constexpr std::string_view needs(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::max:
      return "an integer or floating-point type";
    case ReduceOp::premul_sum:
      return "a floating-point or complex type";
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return "an integer type";
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor:
      return "an integer type or bool";
    case ReduceOp::minloc:
    case ReduceOp::maxloc:
      return "pairs of a value and an index";
    default:
      return "numbers";
  }
}

/// The call as kernels see it, on the same bytes. Elements of several words whose words are reduced
/// or moved each for itself become as many words, and a `boolean` becomes a byte. So these types
/// need no kernels of their own.
constexpr Call in_words(Call call) {
  const bool reduces = facts_of(call.collective).reduces;
  const auto as = [&call](DataType word) {
    call.count *= size_of(call.type) / size_of(word);
    call.type = word;
  };
  if (call.type == DataType::boolean) {
    as(DataType::u8);
  } else if (is_complex(call.type) && reduces) {
    if (call.op != ReduceOp::prod) as(size_of(call.type) == 8 ? DataType::f32 : DataType::f64);
  } else if ((is_complex(call.type) || is_value_index(call.type)) && !reduces) {
    as(alignment_of(call.type) == 4 ? DataType::u32 : DataType::u64);
  }
  return call;
}
/// Whether only few algorithms have kernels for the elements of this call, which `in_words` has
/// returned.
constexpr bool is_rare(const Call& call) {
  return facts_of(call.collective).reduces && call.type >= DataType::i16;
}

/// Whether the result of rank r has the terms of the first ranks alone.
constexpr bool is_scan(Collective collective) {
  return collective == Collective::scan || collective == Collective::exscan;
}
/// The number of terms in the result of `rank`, those of the first ranks. 0: it has no result.
constexpr int terms_of(Collective collective, int rank, int ranks) {
  return !is_scan(collective) ? ranks : collective == Collective::scan ? rank + 1 : rank;
}

/// Blocks in the larger buffer, which `Call::parts` must be equal to.
constexpr int parts_of(Collective collective, int ranks) {
  const CollectiveFacts facts = facts_of(collective);
  const bool several = facts.send.size == BufferFacts::Size::one_per_rank ||
                       facts.recv.size == BufferFacts::Size::one_per_rank;
  return several ? ranks : 1;
}

constexpr std::size_t bytes_of(const Call& call, const BufferFacts& buffer) {
  return buffer.size == BufferFacts::Size::nothing ? 0
         : buffer.size == BufferFacts::Size::one
             ? call.block_bytes()
             : call.block_bytes() * static_cast<std::size_t>(call.parts);
}
constexpr std::size_t send_bytes(const Call& call) {
  return bytes_of(call, facts_of(call.collective).send);
}
constexpr std::size_t recv_bytes(const Call& call) {
  return bytes_of(call, facts_of(call.collective).recv);
}

/// `Call::count` with which the larger buffer has about `bytes` bytes. If it has several blocks,
/// each begins at a multiple of 16 bytes, as in nccl-tests, for any number of ranks; only the
/// shortest blocks do not.
constexpr std::size_t count_within(const Call& call, std::size_t bytes) {
  const std::size_t block = bytes / static_cast<std::size_t>(call.parts),
                    aligned = call.parts == 1 || block < 16 ? block : block / 16 * 16,
                    count = aligned / size_of(call.type);
  return count == 0 ? 1 : count;
}

/// Whether rank `rank` of the call has the buffer.
constexpr bool has(const BufferFacts& buffer, const Call& call, int rank) {
  return buffer.size != BufferFacts::Size::nothing && (!buffer.root_only || rank == call.root);
}

/// Whether one buffer may lie within the other.
constexpr bool has_in_place(Collective collective) {
  return collective != Collective::send_recv && collective != Collective::barrier;
}

/// Bytes from the beginning of `send` to that of `recv` in a call in place. One buffer then lies
/// within the other, as this rank's block.
constexpr std::ptrdiff_t in_place_distance(const Call& call, int rank) {
  const CollectiveFacts facts = facts_of(call.collective);
  const auto block = static_cast<std::ptrdiff_t>(call.block_bytes()) * rank;
  if (facts.send.size == facts.recv.size) return 0;
  return facts.send.size == BufferFacts::Size::one_per_rank ? block : -block;
}

/// A rank's buffers of a call, null where it has none.
struct CallBuffers {
  const std::byte* send;
  std::byte* recv;
};
/// The buffers of a call out of place, which begin at `send` and `recv`, or of one in place, where
/// the larger buffer begins at `recv` and the smaller one is a block of it.
constexpr CallBuffers buffers_of(const Call& call, bool in_place, const std::byte* send,
                                 std::byte* recv, int rank) {
  const CollectiveFacts facts = facts_of(call.collective);
  // The other ranks' only buffer of a rooted collective has the same offset as the root's, because
  // symmetric memory requires that.
  const std::ptrdiff_t distance =
      in_place ? in_place_distance(call, facts.rooted ? call.root : rank) : 0;
  const std::byte* const first = in_place ? recv : send;
  return {has(facts.send, call, rank) ? first + (distance < 0 ? -distance : 0) : nullptr,
          has(facts.recv, call, rank) ? recv + (distance > 0 ? distance : 0) : nullptr};
}

}  // namespace plait
