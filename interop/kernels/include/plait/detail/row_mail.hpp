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

  PLAIT_DEVICE explicit RowMail(Here<D>& here)
      : here_(here),
        dev_(here.dev_),
        s_(here.s_),
        lanes_(s_.row_memory.lanes.own + first_lane() * RowMemory::lane_bytes),
        second_lanes_(s_.row_memory.second_lanes.own +
                      first_lane() * RowMemory::second_lane_bytes) {}

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
  /// Of a step of rank `writer`, at this rank.
  PLAIT_DEVICE std::byte* slot_of(std::uint32_t step, int writer) const {
    return Packets ? second_lane(writer) + step % slots * 2 * RowMemory::slot_bytes
                   : lanes_ + static_cast<unsigned>(writer) * RowMemory::lane_bytes +
                         step % slots * RowMemory::slot_bytes;
  }
  /// Of the whole rows of a gathering.
  PLAIT_DEVICE std::byte* gathered(std::uint32_t round, int writer) const {
    return second_lane(writer) + RowMemory::gathered + round % 2 * RowMemory::most_row_bytes;
  }
  /// The same place at rank `peer`.
  PLAIT_DEVICE std::byte* at(int peer, std::byte* slot) const {
    return slot + s_.row_memory.lanes.distance(peer);
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
  /// Packs in several places of the `Count` ranks from `first` on, whose slots `slot(rank)` says:
  /// `packs[place][rank]`. For this rank, and for ranks that don't exist, it is `own[place]`.
  PLAIT_CALLS_HOST
  template <int Count, int Places, class Slot>
  PLAIT_DEVICE bool take(int first, const Slot& slot, const P (&own)[Places], std::uint32_t step,
                         const unsigned (&places)[Places], P (&packs)[Places][Count]) {
    const auto is_there = [&](int j) PLAIT_INLINED {
      return first + j < s_.ranks && first + j != s_.rank;
    };
    if constexpr (Packets) {
      constexpr int all = 2 * Count * Places;
      const Packet* packets[all];
      PacketData data[all];
      Waiting who[all];
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Count; ++j) {
        const int from = is_there(j) ? first + j : s_.rank;
        const auto* const its = reinterpret_cast<const Packet*>(slot(from));
        PLAIT_UNROLL
        for (int k = 0; k < 2 * Places; ++k) {
          packets[2 * Places * j + k] = its + places[k / 2] + k % 2 * RowMemory::slot_packs;
          who[2 * Places * j + k] = {from, KernelSetting::term_of_row};
          if (is_there(j)) wanted |= 1u << (2 * Places * j + k);
        }
      }
      if (!dev_.get(packets, data, wanted, step, who)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < Count; ++j) {
        PLAIT_UNROLL
        for (int k = 0; k < Places; ++k) {
          const PacketData* const halves = data + 2 * Places * j + 2 * k;
          packs[k][j] = is_there(j) ? bits_as<P>(Halves{{halves[0], halves[1]}}) : own[k];
        }
      }
    } else {
      PLAIT_UNROLL
      for (int j = 0; j < Count; ++j) {
        PLAIT_UNROLL
        for (int k = 0; k < Places; ++k) {
          packs[k][j] = own[k];
          if (is_there(j))
            packs[k][j] = load_words(dev_, reinterpret_cast<const P*>(slot(first + j)) + places[k]);
        }
      }
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
  PLAIT_DEVICE std::size_t first_lane() const {
    return std::size_t{here_.block()} * static_cast<unsigned>(s_.ranks);
  }
  PLAIT_DEVICE std::byte* second_lane(int writer) const {
    return second_lanes_ + static_cast<unsigned>(writer) * RowMemory::second_lane_bytes;
  }

  Here<D>& here_;
  D& dev_;
  const KernelSetting& s_;
  std::byte *const lanes_, *const second_lanes_;  // of this block, at this rank
};

}  // namespace plait::detail
