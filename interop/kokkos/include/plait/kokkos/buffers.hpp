// Views as the buffers of a call: the checks before anything is enqueued.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "plait/collective_table.h"
#include "plait/communicator.hpp"
#include "plait/group.hpp"
#include "plait/kokkos/value_types.hpp"
#include "plait/plait.h"

namespace plait::kokkos::detail {

/// A view without its type. Its label is read only for an error, because a label is an allocated
/// string.
struct ViewFacts {
  const char* role;  // what the caller calls the argument
  const void* view;
  std::string (*label)(const void* view);
  const char* memory_space;
  void* data;
  std::size_t size;  // elements
  std::size_t rank;
  std::array<std::size_t, 8> extents;
  bool contiguous;
  // Whether the elements of a contiguous view are ordered as in LayoutLeft, and as in LayoutRight.
  // Both, if at most one extent is larger than 1.
  bool left, right;
};

/// The product, or the largest number if it overflows. The extents of an unmanaged view may
/// overflow; no view's memory has so many elements.
constexpr std::size_t product_or_most(std::size_t a, std::size_t b) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return b != 0 && a > most / b ? most : a * b;
}
/// The same for a sum.
constexpr std::size_t sum_or_most(std::span<const std::size_t> terms) {
  std::size_t sum = 0;
  for (const std::size_t term : terms)
    sum += std::min(term, std::numeric_limits<std::size_t>::max() - sum);
  return sum;
}

template <class View>
inline constexpr std::size_t rank_of = static_cast<std::size_t>(View::rank);

template <class View>
ViewFacts facts_of(const View& view, const char* role) {
  using Layout = typename View::array_layout;
  constexpr std::size_t rank = rank_of<View>;
  ViewFacts buffer{
      .role = role,
      .view = &view,
      .label = [](const void* v) { return std::string(static_cast<const View*>(v)->label()); },
      .memory_space = View::memory_space::name(),
      .data = const_cast<typename View::non_const_value_type*>(view.data()),
      .size = 1,
      .rank = rank,
      .extents = {},
      .contiguous = false,
      .left = rank <= 1 || std::is_same_v<Layout, Kokkos::LayoutLeft>,
      .right = rank <= 1 || std::is_same_v<Layout, Kokkos::LayoutRight>};
  // Not size(): since Kokkos 5 that is 0 for a view without memory, whatever its extents.
  std::array<std::size_t, rank> strides{}, order{};
  for (std::size_t i = 0; i < rank; ++i) {
    buffer.extents[i] = view.extent(i);
    buffer.size = product_or_most(buffer.size, buffer.extents[i]);
    strides[i] = static_cast<std::size_t>(view.stride(i));
    order[i] = i;
  }
  // True if each extent of `order`, from the fastest on, steps over those before it. An extent of 1
  // makes no step, so its stride means nothing. Not span_is_contiguous(): it checks that stride
  // too, or compares only the span with the size, which may be equal by chance.
  const auto dense = [&] {
    if (buffer.size <= 1) return true;
    std::size_t stride = 1;
    for (const std::size_t i : order) {
      if (buffer.extents[i] > 1 && strides[i] != stride) return false;
      stride *= buffer.extents[i];
    }
    return true;
  };
  if constexpr (rank > 1 && std::is_same_v<Layout, Kokkos::LayoutStride>) {
    buffer.left = dense();
    std::reverse(order.begin(), order.end());
    buffer.right = dense();
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  buffer.contiguous = dense();
  return buffer;
}

/// How many blocks the buffers of a collective hold, one or one per rank, and which ranks have
/// them; `Communicator` says the same in words.
struct Blocks {
  bool many_sent = false, many_received = false;
  bool root_sends = false, root_receives = false;  // only the root
};
constexpr Blocks blocks_of(Collective collective) {
  struct Buffer {
    bool many = false, at_root = false;
  };
  constexpr Buffer none, block, blocks{.many = true}, root_block{.at_root = true},
      root_blocks{.many = true, .at_root = true};
  switch (collective) {
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names
#define PLAIT_BLOCKS_OF_ROW(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) \
  case Collective::NAME:                                            \
    return {SEND.many, RECV.many, SEND.at_root, RECV.at_root};
// NOLINTEND(bugprone-macro-parentheses)
#define PLAIT_BLOCKS_OF_OTHER(NAME, ENUMERATOR, SEND, RECV) \
  PLAIT_BLOCKS_OF_ROW(NAME, ENUMERATOR, , , SEND, RECV)
    PLAIT_COLLECTIVES(PLAIT_BLOCKS_OF_ROW, PLAIT_BLOCKS_OF_OTHER)
#undef PLAIT_BLOCKS_OF_ROW
#undef PLAIT_BLOCKS_OF_OTHER
  }
  return {};
}

/// True for all but gather and scatter, where only the root has a view with all blocks.
constexpr bool fits_in_one_view(Collective collective) {
  const Blocks blocks = blocks_of(collective);
  return !(blocks.many_sent && blocks.root_sends) &&
         !(blocks.many_received && blocks.root_receives);
}

/// The peer of a message, if that has elements.
inline std::span<const int> peer(const int& rank, const ViewFacts& buffer) {
  return {&rank, buffer.size == 0 ? 0u : 1u};
}

/// What is known of messages with so many elements.
inline Call messages(std::size_t count) {
  return {.collective = Collective::send_recv, .count = count};
}
inline Call messages(std::span<const std::size_t> counts) {
  return messages(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
}

/// The checks of one call, on one rank.
class Checks {
 public:
  /// `peers`: of messages, if they are not all ranks.
  Checks(Communicator& comm, const Call& call, std::string_view function,
         const std::optional<Communicator::Peers>& peers = std::nullopt)
      : comm_(comm),
        function_(function),
        call_(call),
        peers_(peers),
        blocks_(blocks_of(call.collective)) {
    try {
      rank_ = comm.rank();
      ranks_ = comm.size();
    } catch (const Error&) {  // its sentence would name the getter instead of this call
      const std::string sentence = std::string(function_) + ": this communicator was moved from";
      if (group_is_open()) static_cast<void>(plait_refuse(sentence.c_str()));
      throw Error(ErrorCode::invalid_argument, sentence);
    }
  }
  Checks(Communicator& comm, const Call& call) : Checks(comm, call, name_of(call.collective)) {}

  bool sends() const { return !blocks_.root_sends || rank_ == call_.root; }
  bool receives() const { return !blocks_.root_receives || rank_ == call_.root; }

  /// The execution space must run on the communicator's target, so that its memory is there. No
  /// buffer: a barrier.
  void targets(BackendKind of_exec, const char* exec, BackendKind of_comm,
               const ViewFacts* buffer = nullptr) const {
    if (of_exec == of_comm) return;
    refuse((buffer == nullptr ? "it" : named(*buffer) + ", in " + buffer->memory_space + ",") +
           " is called with execution space " + exec + ", which is on " +
           std::string(name_of(of_exec)) + ", but the communicator is on " +
           std::string(name_of(of_comm)));
  }

  void memory(const ViewFacts& buffer) const {
    if (buffer.size == std::numeric_limits<std::size_t>::max())
      refuse(described(buffer) + " has extents whose product overflows");
    if (!buffer.contiguous)
      refuse(described(buffer) +
             " is not contiguous; Plait does not pack, so copy it into a view that is");
    if (buffer.data == nullptr && buffer.size != 0) refuse(described(buffer) + " has no memory");
  }

  /// The count of a call out of place: elements of a block. `memory` has checked the buffers that
  /// this rank has.
  std::size_t count(const ViewFacts& src, const ViewFacts& dst) const {
    const bool both = sends() && receives();
    if (blocks_.many_sent == blocks_.many_received) {
      if (both) same_extents(src, dst);
      const ViewFacts& buffer = sends() ? src : dst;
      return blocks_.many_sent ? block_of(buffer) : buffer.size;
    }
    const ViewFacts& one = blocks_.many_sent ? dst : src;
    if (both) one_for_each_rank(blocks_.many_sent ? src : dst, one);
    return one.size;
  }

  /// Elements of a block, in a view with one block per rank.
  std::size_t block_of(const ViewFacts& many) const {
    const auto cut = [&](bool order, std::size_t slowest) {
      return order && many.extents[slowest] % n() == 0;
    };
    if (!cut(many.right, 0) && !cut(many.left, many.rank - 1))
      refuse(described(many) + " can't be cut into " + std::to_string(ranks_) +
             " blocks along its slowest extent");
    return many.size / n();
  }

  /// Order of a block's elements, for a call out of place: that of the buffer that all ranks have,
  /// if the collective has such a buffer.
  ArrayOrder order(const ViewFacts& src, const ViewFacts& dst) const {
    if (blocks_.many_sent != blocks_.many_received)
      return blocks_.many_sent ? order_of_block(dst, false) : order_of_block(src, false);
    return order_of_block(sends() ? src : dst, blocks_.many_sent);
  }
  /// For a view of one block, or of one block per rank. Unsaid if at most one extent of a block is
  /// larger than 1: then all orders are the same.
  ArrayOrder order_of_block(const ViewFacts& buffer, bool many) const {
    auto extents = buffer.extents;
    if (many && buffer.rank > 0) {
      std::size_t& slowest = extents[buffer.left && !buffer.right ? buffer.rank - 1 : 0];
      slowest /= n();
    }
    const auto longer =
        std::count_if(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(buffer.rank),
                      [](std::size_t extent) { return extent > 1; });
    if (longer <= 1) return ArrayOrder::unsaid;
    if (buffer.left == buffer.right) return buffer.left ? ArrayOrder::unsaid : ArrayOrder::other;
    return buffer.left ? ArrayOrder::first_fastest : ArrayOrder::last_fastest;
  }

  /// The views must be disjoint, or in place as the collective defines it.
  void places(const ViewFacts& src, const ViewFacts& dst, std::size_t count) const {
    if (!sends() || !receives() || count == 0) return;
    if (!overlap(src, count * (blocks_.many_sent ? n() : 1), dst,
                 count * (blocks_.many_received ? n() : 1)))
      return;
    const std::uintptr_t from = place_of(src), to = place_of(dst),
                         mine = count * static_cast<std::size_t>(rank_) * size_of(call_.type);
    const bool equal = blocks_.many_sent == blocks_.many_received;
    if (equal ? from == to : blocks_.many_sent ? to == from + mine : from == to + mine) return;
    refuse(described(src) + " and " + described(dst) +
           " overlap; pass disjoint views, or in place " +
           (equal               ? "the same"
            : blocks_.many_sent ? "block " + std::to_string(rank_) + " of src as dst"
                                : "block " + std::to_string(rank_) + " of dst as src"));
  }

  /// For two messages: one view is read while the other is written.
  void disjoint(const ViewFacts& src, const ViewFacts& dst) const {
    if (src.size == 0 || dst.size == 0 || !overlap(src, src.size, dst, dst.size)) return;
    refuse(described(src) + " and " + described(dst) + " overlap; pass disjoint views");
  }

  /// The block for, or from, each rank or neighbour must lie in the view of rank 1. An empty block
  /// may begin anywhere. The communicator checks that there is one block per rank.
  template <class BlocksOf>
  void within(const ViewFacts& buffer, const BlocksOf& blocks, const char* for_or_from) const {
    std::size_t count = std::min(blocks.counts.size(), blocks.displacements.size());
    if constexpr (requires { blocks.peers; }) count = std::min(count, blocks.peers.size());
    for (std::size_t i = 0; i < count; ++i) {
      int peer = static_cast<int>(i);
      if constexpr (requires { blocks.peers; }) peer = blocks.peers[i];
      if (peer != proc_null)
        block_within(buffer, peer, blocks.counts[i], blocks.displacements[i], for_or_from);
    }
  }
  bool is_root(int root) const { return rank_ == root; }

  /// `src` is the blocks of all ranks, one behind the other, and `dst` is apart from it or this
  /// rank's block of it. The communicator checks that there is one count per rank.
  void counted_blocks(const ViewFacts& src, const ViewFacts& dst,
                      std::span<const std::size_t> counts) const {
    if (counts.size() != n()) return;
    const auto mine = static_cast<std::size_t>(rank_);
    if (const std::size_t all = sum_or_most(counts); src.size != all)
      refuse(described(src) + " has " + std::to_string(src.size) +
             " elements, and the counts add up to " + std::to_string(all));
    if (dst.size != counts[mine])
      refuse(described(dst) + " has " + std::to_string(dst.size) +
             " elements, and the count of rank " + std::to_string(rank_) + " is " +
             std::to_string(counts[mine]));
    if (dst.size == 0 || !overlap(src, src.size, dst, dst.size)) return;
    if (place_of(dst) == place_of(src) + sum_or_most(counts.first(mine)) * size_of(call_.type))
      return;
    refuse(described(src) + " and " + described(dst) +
           " overlap; pass disjoint views, or in place block " + std::to_string(rank_) +
           " of src as dst");
  }

 private:
  std::size_t n() const { return static_cast<std::size_t>(ranks_); }

  static std::uintptr_t place_of(const ViewFacts& buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer.data);
  }
  /// True if the first elements of both, so many, have memory in common.
  bool overlap(const ViewFacts& a, std::size_t of_a, const ViewFacts& b, std::size_t of_b) const {
    const std::size_t bytes = size_of(call_.type);
    return place_of(a) < place_of(b) + of_b * bytes && place_of(b) < place_of(a) + of_a * bytes;
  }

  void block_within(const ViewFacts& buffer, int peer, std::size_t count, std::size_t at,
                    const char* for_or_from) const {
    if (count == 0 || (at <= buffer.size && count <= buffer.size - at)) return;
    refuse(described(buffer) + " is too short: the block " + for_or_from + " rank " +
           std::to_string(peer) + " begins at " + std::to_string(at) + ", with a count of " +
           std::to_string(count));
  }

  void same_extents(const ViewFacts& src, const ViewFacts& dst) const {
    if (src.extents != dst.extents)
      refuse(described(src) + " and " + described(dst) + " differ in their extents");
    if (src.size > 1 && !(src.left && dst.left) && !(src.right && dst.right))
      refuse(described(src) + " and " + described(dst) + " differ in the order of their elements");
  }

  /// `many` must be `one` with its slowest extent times n, or with one more extent n that is slower
  /// than all others.
  void one_for_each_rank(const ViewFacts& many, const ViewFacts& one) const {
    const bool deeper = many.rank == one.rank + 1;
    const auto fits = [&](bool order, std::size_t slowest) {
      if (!order) return false;
      for (std::size_t i = 0; i < many.rank; ++i) {
        std::size_t expected = n();
        if (!deeper) expected = one.extents[i] * (i == slowest ? n() : 1);
        else if (i != slowest) expected = one.extents[slowest == 0 ? i - 1 : i];
        if (many.extents[i] != expected) return false;
      }
      return true;
    };
    if (fits(many.right && one.right, 0) || fits(many.left && one.left, many.rank - 1)) return;
    refuse(described(many) + " is not " + described(one) + " once for each of " +
           std::to_string(ranks_) + " ranks along its slowest extent");
  }

  static std::string named(const ViewFacts& buffer) {
    const std::string label = buffer.label(buffer.view);
    return buffer.role + (label.empty() ? std::string(" without a label") : " \"" + label + "\"");
  }
  static std::string described(const ViewFacts& buffer) {
    std::string text = named(buffer) + " (";
    for (std::size_t i = 0; i < buffer.rank; ++i)
      text += (i == 0 ? "" : " x ") + std::to_string(buffer.extents[i]);
    return text + (buffer.rank == 0 ? "scalar)" : ")");
  }
  /// Also fails an open group, which must not be enqueued without this call if the caller catches
  /// the error.
  [[noreturn]] void refuse(const std::string& why) const {
    const Error error(ErrorCode::invalid_argument,
                      std::string(function_) + ": rank " + std::to_string(rank_) + ": " + why);
    if (peers_) comm_.refuse(error, *peers_);
    else comm_.refuse(error, Call{.collective = call_.collective, .count = 1});
    throw error;
  }

  Communicator& comm_;
  std::string_view function_;  // as the caller knows it, because several functions send messages
  Call call_;
  std::optional<Communicator::Peers> peers_;
  Blocks blocks_;
  int rank_ = 0, ranks_ = 0;
};

}  // namespace plait::kokkos::detail
