// Chunks: how a block cuts the data that it sends through channels, and how its threads move a
// chunk and add to it on the way.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/pack.hpp"
#include "backends/device/untyped.hpp"

namespace plait {

/// Cuts a range of bytes into chunks that fit a slot.
struct Chunks {
  std::uint32_t bytes;  // per chunk, a multiple of a pack

  /// Cuts `size` bytes into about `parts` chunks, so that they overlap in flight. A chunk has at
  /// least `grain` bytes, so that the fixed cost of a step does not show, and fits a slot. `grain`
  /// and `slot_bytes` are multiples of a pack.
  static constexpr Chunks of(std::size_t size, std::size_t parts, std::size_t grain,
                             std::uint32_t slot_bytes) {
    const std::size_t part = Partition::of(size, parts, grain).each,
                      wanted = part < grain ? grain : part;
    return {wanted < slot_bytes ? static_cast<std::uint32_t>(wanted) : slot_bytes};
  }
  PLAIT_DEVICE constexpr std::uint32_t count(Range range) const {
    return static_cast<std::uint32_t>((range.size() + bytes - 1) / bytes);
  }
  PLAIT_DEVICE constexpr Range at(Range range, std::uint32_t k) const {
    const std::size_t begin = range.begin + std::size_t{k} * bytes, end = begin + bytes;
    return {begin < range.end ? begin : range.end, end < range.end ? end : range.end};
  }
};

/// The slots that a chunk comes from and goes to. Where there are two, either may be null: then it
/// is not there.
template <class P, int From, int To>
struct Slots {
  const P* from[From > 0 ? From : 1];
  P* to[To > 0 ? To : 1];
};

/// The buffer that holds a rank's own part of a sum: its term in the input, or a partial result in
/// the output.
enum class Own { input, output };

/// Moves chunks of one call, with the threads of one block.
template <class T, Device D>
class ChunkMover {
 public:
  using P = Pack<T, D::pack_bytes>;
  template <int From, int To>
  using Slots = plait::Slots<P, From, To>;

  PLAIT_DEVICE ChunkMover(D& dev, const void* send, void* recv, std::size_t count,
                          const Reduction& reduction)
      : dev_(dev),
        in_(static_cast<const T*>(send), count),
        partials_(static_cast<const T*>(recv), count),
        out_(static_cast<T*>(recv), count),
        reducer_(reduction) {}

  /// Adds the partial results from slots to this rank's own part of a chunk, in this order. Stores
  /// the sum in slots and, with `Store`, in the output. In a slot, the chunk begins at pack 0.
  /// `finished`: the sum has all terms, so an average is divided; true once per chunk. With no slot
  /// to add from, a partial result is copied bit by bit. `stores`: false leaves the output alone,
  /// for callers that learn at run time whether to `Store`.
  template <int From, int To, bool Store>
  PLAIT_DEVICE void add(Own own, Range chunk, const Slots<From, To>& slots, bool finished = false,
                        bool stores = true) {
    if constexpr (is_untyped<T>) {
      add_run(own == Own::input, chunk, slots, finished, Store && stores);
    } else {
      move<true, From, To, Store>(own == Own::input, chunk, slots, finished, stores);
    }
  }
  /// Copies a chunk from a slot to slots and, with `Store`, to the output.
  template <int To, bool Store>
  PLAIT_DEVICE void copy(Range chunk, const Slots<1, To>& slots) {
    move<false, 1, To, Store>(false, chunk, slots, false, true);
  }

 private:
  using Input = Packs<const T, D::pack_bytes>;

  template <bool Adds, int From, int To, bool Store>
  PLAIT_DEVICE void move(bool enters, Range chunk, const Slots<From, To>& slots, bool finished,
                         bool stores) {
    // A copy, which stays in registers: a reference to one of the two would put both in memory.
    Input source = in_;
    if (!enters) source = partials_;
    const Range packs = in_packs<D::pack_bytes>(chunk);
    const auto size = static_cast<std::uint32_t>(packs.size());
    std::uint32_t whole = size;
    if constexpr (Adds) {
      whole = source.whole_in(packs);
    }
    if constexpr (Store) {
      if (stores) whole = both_whole(whole, out_.whole_in(packs));
    }
    for_packs<packs_in_flight<T, D>>(dev_, size, whole,
                                     [&]<int Count, bool Whole>(std::uint32_t i) {
                                       move_packs<Adds, From, To, Store, Count, Whole>(
                                           source, enters, packs.begin, i, slots, finished, stores);
                                     });
  }

  template <int From, int To>
  PLAIT_DEVICE void add_run(bool enters, Range chunk, const Slots<From, To>& slots, bool finished,
                            bool stores) {
    const Range packs = in_packs<D::pack_bytes>(chunk);
    const std::size_t begin = packs.begin * sizeof(P);
    if (packs.size() == 0) return;
    const void* terms[1 + From] = {(enters ? in_ : partials_).packs() + packs.begin};
    void* results[1 + To];
    int from = 1, to = 0;
    for (int s = 0; s < From; ++s)
      if (slots.from[s] != nullptr) terms[from++] = slots.from[s];
    if (stores) results[to++] = out_.packs() + packs.begin;
    for (int s = 0; s < To; ++s)
      if (slots.to[s] != nullptr) results[to++] = slots.to[s];
    if (to == 0) return;
    reducer_.sum(
        dev_, {0, packs.size()}, out_.count() - begin, enters ? 1 : 0, from,
        [&](int i) { return terms[i]; }, to, [&](int i) { return results[i]; },
        finished && (From > 0 || enters));
  }

  /// Moves packs i, i + threads, ... of a chunk that begins at pack `base` of the message. `Whole`:
  /// they are complete and aligned.
  template <bool Adds, int From, int To, bool Store, int Count, bool Whole>
  PLAIT_DEVICE void move_packs(const Input& source, bool enters, std::size_t base, std::uint32_t i,
                               const Slots<From, To>& slots, bool finished, bool stores) {
    P own[Count], terms[From > 0 ? From : 1][Count];
    if constexpr (Adds) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u)
        own[u] = load_pack<Whole>(dev_, source, base + i + u * dev_.threads());
    }
    PLAIT_UNROLL
    for (int s = 0; s < From; ++s) load_slot<From>(slots.from[s], i, terms[s]);
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) {
      P sum;
      if constexpr (!Adds) {
        sum = terms[0][u];
      } else if (From == 0 && !enters) {
        sum = own[u];
      } else {
        auto sums = enters ? reducer_.start(own[u]) : reducer_.widened(own[u]);
        PLAIT_UNROLL
        for (int s = 0; s < From; ++s)
          if (From == 1 || slots.from[s] != nullptr) reducer_.add_partial(sums, terms[s][u]);
        if (finished) reducer_.average(sums);
        sum = reducer_.template rounded<sizeof(P)>(sums);
      }
      PLAIT_UNROLL
      for (int s = 0; s < To; ++s)
        if (To == 1 || slots.to[s] != nullptr)
          dev_.store(slots.to[s] + i + u * dev_.threads(), sum);
      if constexpr (Store) {
        if (stores) store_pack<Whole>(dev_, out_, base + i + u * dev_.threads(), sum);
      }
    }
  }

  template <int From, int Count>
  PLAIT_DEVICE void load_slot(const P* slot, std::uint32_t i, P (&packs)[Count]) {
    if (From == 1 || slot != nullptr) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = dev_.load(slot + i + u * dev_.threads());
    } else {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = P{};
    }
  }

  D& dev_;
  Input in_, partials_;
  Packs<T, D::pack_bytes> out_;
  Reducer<T> reducer_;
};

}  // namespace plait
