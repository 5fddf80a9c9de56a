// Two-shot all-reduce with flagged units: small to middle messages on any memory, two hops and no barrier. twoshot_ll sends packets,
// twoshot_ll128 lines.
//
// The message is cut into one stripe a block, a stripe into rounds, and a round into n slices of at most `slots` units. In each round, a
// thread
//   1. scatters: pushes its units of slice p into the scatter lane of rank p, for every peer p;
//   2. reduces: polls the peers' units of its own slice, adds them up in rank order, stores the result and pushes it into the gather lane
//   of
//      every peer;
//   3. gathers: polls the other slices' results and stores them.
//
// Cost: two hops; 2 (n - 1) / n * bytes leave each rank, twice that as packets and 16/15 of it as lines. Resources: 2 halves * blocks * 2 n
// lanes * slots units of scratch, one epoch a block.
//
// Why no barrier is needed. Data and flag arrive together. A lane has one writing rank and one reader, and two halves for odd and even
// epochs. A block writes half e & 1 of a peer p in round e only after it has finished round e - 1 and has synchronised. In that round one
// of its threads received a result, or reduced one itself; either was made of units that every rank, p among them, had sent in round e - 1,
// and p's block sent those after all of its threads had finished round e - 2, the last that read this half. (A round has a unit at least,
// so somebody reduces in it.) In place is safe: a thread reads all its inputs of a round, except those of its own slice, before it stores
// anything, reads those of its own slice before it stores them, and no other thread has its units.
#pragma once
#include "algorithms/building_blocks/flagged.hpp"
#include "backends/device.hpp"
#include "backends/kernel_table.hpp"

namespace plait::twoshot_ll {

using Types = AllTypes;

struct Args {
  WindowView scratch;
  FlaggedLayout layout;  // lanes 0 .. n - 1: units to reduce, by writer; n .. 2n - 1: results, by writer
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Parts stripes;          // of the message's units
  std::uint32_t* epochs;  // one a block
  Reduction reduction;
  int rank, ranks;
};

template <class T, class Unit, class D>
class Twoshot {
 public:
  PLAIT_DEVICE Twoshot(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        send_(static_cast<const T*>(a.send), a.count),
        recv_(static_cast<T*>(a.recv), a.count),
        units_(dev.thread()),
        reducer_(a.reduction),
        first_(units_.first(dev.thread())),
        step_(units_.step(dev.threads())),
        epoch_{a.epochs[dev.block()]} {}

  PLAIT_DEVICE void run() {
    if (a_.ranks <= 2) run_batched<2>();
    else if (a_.ranks <= 4) run_batched<4>();
    else run_batched<8>();
  }

 private:
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  /// A round's slices: units of the message.
  struct Round {
    std::size_t begin, end;
    std::uint32_t each;

    PLAIT_DEVICE std::size_t unit(int slice, std::size_t i) const { return begin + static_cast<unsigned>(slice) * std::size_t{each} + i; }
    PLAIT_DEVICE bool has(int slice, std::size_t i) const { return unit(slice, i) < end; }  // for i < each
  };

  /// `Batch`: ranks whose units are polled at once.
  template <int Batch>
  PLAIT_DEVICE void run_batched() {
    const Range stripe = a_.stripes.at(dev_.block());
    const auto n = static_cast<std::uint32_t>(a_.ranks);
    const std::size_t most = std::size_t{a_.layout.slots} * n;
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += most) {
      if (begin != stripe.begin) dev_.sync();  // the whole block has finished the last round before anybody sends in this one
      epoch_ = epoch_.next();
      const bool whole = stripe.end - begin >= most;
      const Round round{begin, whole ? begin + most : stripe.end,
                        whole ? a_.layout.slots : (static_cast<std::uint32_t>(stripe.end - begin) + n - 1) / n};
      scatter(round);
      if (!reduce<Batch>(round) || !gather<Batch>(round)) return;
    }
    dev_.sync();  // all threads of the block have read the epoch
    if (dev_.thread() == 0) a_.epochs[dev_.block()] = epoch_.value;
  }

  PLAIT_DEVICE void scatter(const Round& round) {
    for (std::size_t i = first_; i < round.each; i += step_)
      for (int s = 1; s < a_.ranks; ++s) {  // starts at the next rank, so that no two ranks write to the same peer first
        const int peer = rank_after(a_.rank, s, a_.ranks);
        if (round.has(peer, i)) dev_.put(slot(peer, a_.rank, i), units_.load(dev_, send_, round.unit(peer, i)), epoch_.value);
      }
  }

  template <int Batch>
  PLAIT_DEVICE bool reduce(const Round& round) {
    for (std::size_t i = first_; i < round.each && round.has(a_.rank, i); i += step_) {
      const std::size_t unit = round.unit(a_.rank, i);
      Share result = units_.load(dev_, send_, unit);
      if (!sum<Batch>(i, result)) return false;
      for (int s = 1; s < a_.ranks; ++s) {
        const int peer = rank_after(a_.rank, s, a_.ranks);
        dev_.put(slot(peer, a_.ranks + a_.rank, i), result, epoch_.value);
      }
      units_.store(dev_, recv_, unit, result);
    }
    return true;
  }

  /// `result`: this rank's input of its slice's slot i, and then the reduction.
  template <int Batch>
  PLAIT_DEVICE bool sum(std::size_t i, Share& result) {
    const Share mine = result;
    Share shares[Batch];
    UnitSum<Unit, T> total(reducer_, mine);
    for (int first = 0; first < a_.ranks; first += Batch) {
      if (!receive<Batch>(
              first, 0, i, [&](int peer) { return peer != a_.rank; }, shares))
        return false;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        if (first + j >= a_.ranks) break;
        total.add(first + j, first + j == a_.rank ? mine : shares[j]);
      }
    }
    result = total.result();
    return true;
  }

  template <int Batch>
  PLAIT_DEVICE bool gather(const Round& round) {
    for (std::size_t i = first_; i < round.each; i += step_)
      for (int first = 0; first < a_.ranks; first += Batch) {
        const auto expected = [&](int peer) { return peer != a_.rank && round.has(peer, i); };
        Share shares[Batch];
        if (!receive<Batch>(first, a_.ranks, i, expected, shares)) return false;
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j)
          if (first + j < a_.ranks && expected(first + j)) units_.store(dev_, recv_, round.unit(first + j, i), shares[j]);
      }
    return true;
  }

  /// Slot i of the lanes `lane + first ...` of ranks `first` to `first + Batch - 1`, as far as they are there and expected.
  template <int Batch, class Expected>
  PLAIT_DEVICE bool receive(int first, int lane, std::size_t i, Expected expected, Share (&shares)[Batch]) {
    const Slot* slots[Batch];
    Waiting who[Batch];
    unsigned wanted = 0;
    PLAIT_UNROLL
    for (int j = 0; j < Batch; ++j) {
      if (first + j < a_.ranks && expected(first + j)) wanted |= 1u << j;
      slots[j] = slot(a_.rank, lane + first + j, i);
      who[j] = {first + j, epoch_.value};
    }
    return dev_.get(slots, shares, wanted, epoch_.value, who);
  }

  PLAIT_DEVICE Slot* slot(int owner, int lane, std::size_t i) const {
    return reinterpret_cast<Slot*>(a_.scratch.peer_ptr(owner)) + a_.layout.at(dev_.block(), epoch_, lane, i);
  }

  D& dev_;
  const Args& a_;
  Packs<const T, packet_bytes> send_;
  Packs<T, packet_bytes> recv_;
  Units<Unit, T> units_;
  Reducer<T> reducer_;
  unsigned first_, step_;
  Epoch epoch_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Twoshot<T, PacketUnit, D>(dev, a).run();
  }
};

}  // namespace plait::twoshot_ll
