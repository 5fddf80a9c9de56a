// A thread block's lanes from and to every rank, which the calls of one or two hops share: a lane a
// writing rank, with two halves for odd and even epochs. A round of a stripe's units is an epoch.
//
// Why no barrier is needed. Data and flag arrive together. A lane has one writing rank and one
// reader; a block may write half e & 1 of rank p in round e once p's block has finished round e
// - 2. That is so when something of p's round e - 1 has arrived here, which p's block sent after
// all of its threads had finished round e - 2. Where all ranks send to all, as much to each, this
// block received units of all in round e - 1 itself. Where they do not, it notes that it has not
// (`unheard`), and waits for slot 0 of everybody's lane at the beginning of the next round,
// whatever call that belongs to: a unit with data or, of those that had none for it, an empty one
// (`be_heard`). Nobody overwrites it meanwhile: p's round e + 1 writes there, and p begins that
// when it has our unit of round e.
#pragma once
#include "algorithms/blocks/flags/units.hpp"

namespace plait {

/// What a block keeps from call to call, in device memory.
struct LanesState {
  std::uint32_t epoch;
  std::uint32_t
      unheard;  // 1: units of the last round may be on their way that nobody has waited for
};

struct LanesArgs {
  WindowView scratch;
  LLLayout layout;     // a lane a writing rank
  LanesState* states;  // one a block
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
  /// Units of a round.
  PLAIT_DEVICE std::uint32_t slots() const { return a_.layout.slots; }
  /// Where this rank's units for `owner` go; where those from `writer` come.
  PLAIT_DEVICE Slot* slot(int owner, std::uint32_t i) const {
    return reinterpret_cast<Slot*>(a_.scratch.peer_ptr(owner)) +
           a_.layout.at(dev_.block(), epoch_, a_.rank, i);
  }
  PLAIT_DEVICE const Slot* lane(int writer, std::uint32_t i) const {
    return reinterpret_cast<const Slot*>(a_.scratch.own) +
           a_.layout.at(dev_.block(), epoch_, writer, i);
  }

  /// By all threads, in all rounds but a call's first after a `sync`. `hears_all`: each will wait
  /// for units from everybody in this round. False: a peer never came.
  PLAIT_DEVICE bool begin_round(bool hears_all) {
    if (unheard_ != 0 && !hear_of_all()) return false;
    epoch_ = epoch_.next();
    unheard_ = hears_all ? 0 : 1;
    return true;
  }
  /// Where not all hear from all: an empty unit for each rank that this one has no data for, which
  /// `sends(rank)` says. A thread (or its group) a rank.
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
  /// Whether something of everybody's last round has arrived; the whole block waits for that.
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
