// How rows travel from block to block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "plait/kernel.hpp"
#include "plait/row.hpp"

namespace plait::detail {

/// Packs of a block for the same block of other ranks, in slots of `RowMemory` that one rank
/// writes. `Packets`: each pack is two packets, whose flag is the number of the step. Otherwise
/// packs are stored plainly, and `post` signals to all ranks that everything before it is there.
template <Device D, bool Packets>
class RowMail {
 public:
  /// Of elements of any type: in words, because a compiler may take smaller elements apart, and
  /// then waits for the load.
  using P = Pack<std::uint32_t, 16>;

  PLAIT_DEVICE explicit RowMail(Here<D>& here) : here_(here), dev_(here.dev_), s_(here.s_) {}

  PLAIT_DEVICE D& device() { return dev_; }
  PLAIT_DEVICE std::uint32_t& steps() {
    return (Packets ? s_.row_memory.steps_of_packets : s_.row_memory.steps)[here_.block()];
  }
  PLAIT_DEVICE std::uint32_t& gatherings() { return s_.row_memory.gatherings[here_.block()]; }
  static constexpr unsigned slots = RowMemory::slots;
  /// How many steps a rank sends ahead of the one that it waits for.
  static constexpr unsigned steps_ahead = slots / 2 - 1;

  /// 0 is the flag of no packet; the slots of steps still take turns.
  PLAIT_DEVICE static std::uint32_t after(std::uint32_t step) {
    return step == 0xffffffffu ? slots : step + 1;
  }
  /// Of a step, at rank `owner`.
  PLAIT_DEVICE std::byte* slot_of(std::uint32_t step, int owner, int writer) const {
    return Packets ? second_lane(owner, writer) + step % slots * 2 * RowMemory::slot_bytes
                   : s_.row_memory.lanes.peer_ptr(owner) + lane(writer) * RowMemory::lane_bytes +
                         step % slots * RowMemory::slot_bytes;
  }
  /// Of the whole rows of a gathering, at rank `owner`.
  PLAIT_DEVICE std::byte* gathered(std::uint32_t round, int owner, int writer) const {
    return second_lane(owner, writer) + RowMemory::gathered + round % 2 * RowMemory::most_row_bytes;
  }

  PLAIT_CALLS_HOST
  PLAIT_DEVICE void put(std::byte* slot, std::uint32_t step, unsigned place, const P& pack) {
    if constexpr (Packets) {
      const auto halves = bits_as<Halves>(pack);
      auto* const packet = reinterpret_cast<Packet*>(slot) + place;
      dev_.put(packet, halves.half[0], step);
      dev_.put(packet + RowMemory::slot_packs, halves.half[1], step);
    } else {
      dev_.store(reinterpret_cast<P*>(slot) + place, pack);
    }
  }
  /// A pack that nobody stores to, for places that a row does not have.
  PLAIT_DEVICE const P* unused() const {
    return reinterpret_cast<const P*>(slot_of(0, s_.rank, s_.rank));
  }
  /// The packs of the `Count` ranks from `first` on, whose slots `slot(rank)` says. For this rank,
  /// and for ranks that don't exist, it is `own`.
  PLAIT_CALLS_HOST
  template <int Count, class Slot>
  PLAIT_DEVICE bool take(int first, const Slot& slot, const P* own, std::uint32_t step,
                         unsigned place, P (&packs)[Count]) {
    const auto is_there = [&](int j) PLAIT_INLINED {
      return first + j < s_.ranks && first + j != s_.rank;
    };
    if constexpr (Packets) {
      const P mine = load_words(dev_, own);
      const Packet* packets[2 * Count];
      PacketData data[2 * Count];
      Waiting who[2 * Count];
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Count; ++j) {
        const int from = is_there(j) ? first + j : s_.rank;
        packets[2 * j] = reinterpret_cast<const Packet*>(slot(from)) + place;
        packets[2 * j + 1] = packets[2 * j] + RowMemory::slot_packs;
        who[2 * j] = who[2 * j + 1] = {from, KernelSetting::term_of_row};
        if (is_there(j)) wanted |= 3u << 2 * j;
      }
      if (!dev_.get(packets, data, wanted, step, who)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < Count; ++j)
        packs[j] = is_there(j) ? bits_as<P>(Halves{{data[2 * j], data[2 * j + 1]}}) : mine;
    } else {
      PLAIT_UNROLL
      for (int j = 0; j < Count; ++j)
        packs[j] = load_words(
            dev_, is_there(j) ? reinterpret_cast<const P*>(slot(first + j)) + place : own);
    }
    return true;
  }

  /// Tells all ranks that what the block has put there so far is complete, in one of two rows of
  /// words. All threads.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE void post(unsigned row) {
    if constexpr (!Packets) {
      dev_.sync();
      for (int peer = here_.first(); peer < s_.ranks; peer += here_.step())
        if (peer != s_.rank) here_.send(peer, row, 1);
    }
  }
  /// Waits for the next `post` of all ranks. All threads.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE bool await(unsigned row) {
    if constexpr (Packets) {
      return true;
    } else {
      bool came = true;
      for (int peer = here_.first(); peer < s_.ranks; peer += here_.step())
        if (peer != s_.rank)
          came = came && here_.await(peer, row, 1, KernelSetting::term_of_row + row);
      return dev_.all(came);
    }
  }

 private:
  struct Halves {
    PacketData half[2];
  };
  PLAIT_DEVICE std::size_t lane(int writer) const {
    return std::size_t{here_.block()} * static_cast<unsigned>(s_.ranks) +
           static_cast<unsigned>(writer);
  }
  PLAIT_DEVICE std::byte* second_lane(int owner, int writer) const {
    return s_.row_memory.second_lanes.peer_ptr(owner) + lane(writer) * RowMemory::second_lane_bytes;
  }

  Here<D>& here_;
  D& dev_;
  const KernelSetting& s_;
};

}  // namespace plait::detail
