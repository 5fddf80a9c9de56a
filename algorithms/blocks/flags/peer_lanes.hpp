// A block's lanes from and to every rank: one lane per writing rank, in two halves for even and odd
// epochs. Collectives of one and two hops share them. An epoch is one round of a stripe's units.
//
// Why no barrier is needed. Data and flag arrive together. A lane has one writing rank and one
// reader. In round e, a block may write half e & 1 of its lane at rank p once p's block has
// finished round e - 2. Any unit of p's round e - 1 proves that, because p's block sent it after
// all of its threads had finished round e - 2.
//   All ranks send equally much to all: this block received units of all ranks in round e - 1.
//   Otherwise: the block notes that it did not wait for all ranks (`unheard`). At the beginning of
//   the next round, whatever call that belongs to, it waits for slot 0 of every rank's lane: a unit
//   with data or, from a rank that had none for it, an empty unit (`be_heard`). No rank overwrites
//   that unit meanwhile: p writes there in its round e + 1, which it begins when it has this rank's
//   unit of round e.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/units.hpp"

namespace plait {

/// A block's state from call to call, in device memory.
struct LanesState {
  std::uint32_t epoch;
  std::uint32_t unheard;  // 1: units of the last round may be in flight that no thread waited for
};

struct LanesArgs {
  WindowView scratch;
  LLLayout layout;     // one lane per writing rank
  LanesState* states;  // one per block
  int rank, ranks;
};

template <class T, class Unit, class D>
class PeerLanes {
 public:
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  PLAIT_DEVICE PeerLanes(D& dev, const LanesArgs& a)
      : dev_(dev),
        a_(a),
        units_(dev.thread()),
        epoch_{a.states[dev.block()].epoch},
        unheard_(a.states[dev.block()].unheard) {}

  PLAIT_DEVICE const Units<Unit, T>& units() const { return units_; }
  PLAIT_DEVICE std::uint32_t flag() const { return epoch_.value; }
  /// The most units of a round.
  PLAIT_DEVICE std::uint32_t slots() const { return a_.layout.slots; }
  /// Unit i of this round in the lane from this rank to `owner`, and in the lane from `writer`.
  PLAIT_DEVICE Slot* slot(int owner, std::uint32_t i) const {
    return reinterpret_cast<Slot*>(a_.scratch.peer_ptr(owner)) +
           a_.layout.at(dev_.block(), epoch_, a_.rank, i);
  }
  PLAIT_DEVICE const Slot* lane(int writer, std::uint32_t i) const {
    return reinterpret_cast<const Slot*>(a_.scratch.own) +
           a_.layout.at(dev_.block(), epoch_, writer, i);
  }

  /// All threads call it; after a `sync` if the round before was one of this call that heard from
  /// all ranks. If it did not, this is a barrier of the block itself. `hears_all`: the block will
  /// wait for units from every rank in this round. False: a peer never came.
  PLAIT_DEVICE bool begin_round(bool hears_all) {
    if (unheard_ != 0 && !hear_of_all()) return false;
    epoch_ = epoch_.next();
    unheard_ = hears_all ? 0 : 1;
    return true;
  }
  /// Sends an empty unit to each rank for which this one has no data, `sends(rank)` being false.
  /// Needed where not all ranks send to all. One thread (or group) per rank.
  template <class Sends>
  PLAIT_DEVICE void be_heard(Sends sends) {
    const auto ranks = static_cast<unsigned>(a_.ranks);
    for (unsigned p = units_.first(dev_.thread()); units_.group_has(p, ranks);
         p += units_.step(dev_.threads())) {
      const bool live = p < ranks && !sends(static_cast<int>(p));
      units_.put(dev_, slot(live ? static_cast<int>(p) : a_.rank, 0), Share{}, epoch_.value, live);
    }
  }
  /// After the last round of a call.
  PLAIT_DEVICE void keep() {
    dev_.sync();  // all threads of the block have read the state
    if (dev_.thread() == 0) a_.states[dev_.block()] = {epoch_.value, unheard_};
  }

 private:
  /// The whole block waits until a unit of every rank's last round has arrived.
  PLAIT_DEVICE bool hear_of_all() {
    const auto ranks = static_cast<unsigned>(a_.ranks);
    bool heard = true;
    for (unsigned p = units_.first(dev_.thread()); units_.group_has(p, ranks);
         p += units_.step(dev_.threads())) {
      const bool live = p < ranks;
      const int peer = live ? static_cast<int>(p) : a_.rank;
      const Slot* const slots[1] = {lane(peer, 0)};
      const Waiting who[1] = {{peer, epoch_.value}};
      Share share[1];
      heard = dev_.get(slots, share, live ? 1u : 0u, epoch_.value, who) && heard;
    }
    return dev_.all(heard);
  }

  D& dev_;
  const LanesArgs& a_;
  Units<Unit, T> units_;
  Epoch epoch_;
  std::uint32_t unheard_;
};

}  // namespace plait
