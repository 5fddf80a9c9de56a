// One-shot all-reduce with flagged units: the lowest latency for small messages. oneshot_ll sends packets, oneshot_ll128 lines.
//
// The message is cut into one stripe a block, and a stripe into rounds of at most `slots` units. In each round, a thread
//   1. pushes its units, with the round's epoch as flag, into every peer's scratch, and then
//   2. polls the units of all peers at its own scratch and reduces them with its input in rank order, so that all ranks get the same bits.
//
// Cost: one hop; (n - 1) * bytes leave each rank, twice that as packets and 16/15 of it as lines. Resources: 2 halves * blocks * n writers
// * slots units of scratch, one epoch a block.
//
// Why no barrier is needed. Data and flag of a unit arrive together, so polling the flag is enough to read the data. The scratch of a
// block has two halves, used by odd and even epochs, and within them every slot has one writing rank. A block writes half e & 1 of a peer
// in round e only after one of its threads has finished round e - 1 and the block has synchronised (within a call by `sync`, between calls
// by the end of the kernel). That thread needed the peer's units of round e - 1, which the peer's block sent after it had synchronised in
// the same way, so after all of its threads had finished round e - 2, the last one that read this half. Without the `sync`, a short last
// round, in which most threads have no unit, would let a block overtake a peer's thread by two rounds. A block uses only its own part of
// scratch and its own epoch, so this holds for each block whatever the others do.
#pragma once
#include "algorithms/building_blocks/flagged.hpp"
#include "backends/device.hpp"
#include "backends/kernel_table.hpp"

namespace plait::oneshot_ll {

using Types = AllTypes;

struct Args {
  WindowView scratch;
  FlaggedLayout layout;  // a lane a writing rank
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Parts stripes;          // of the message's units
  std::uint32_t* epochs;  // one a block, in device memory: a captured launch advances them at every replay
  Reduction reduction;
  int rank, ranks;
};

template <class T, class Unit>
struct Oneshot {
  using Share = typename Unit::Share;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if (a.ranks <= 2) run_batched<2>(dev, a);
    else if (a.ranks <= 4) run_batched<4>(dev, a);
    else run_batched<8>(dev, a);
  }

 private:
  /// `Batch`: ranks whose units are polled at once.
  template <int Batch, Device D>
  PLAIT_DEVICE static void run_batched(D& dev, const Args& a) {
    const Packs<const T, packet_bytes> send(static_cast<const T*>(a.send), a.count);
    const Packs<T, packet_bytes> recv(static_cast<T*>(a.recv), a.count);
    const Units<Unit, T> units(dev.thread());
    const Reducer<T> reducer(a.reduction);
    const Range stripe = a.stripes.at(dev.block());
    const unsigned first = units.first(dev.thread()), step = units.step(dev.threads());
    Epoch epoch{a.epochs[dev.block()]};

    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += a.layout.slots) {
      if (begin != stripe.begin) dev.sync();  // the whole block has finished the last round before anybody sends in this one
      epoch = epoch.next();
      const std::size_t size = stripe.end - begin < a.layout.slots ? stripe.end - begin : a.layout.slots;

      for (std::size_t i = first; i < size; i += step) push(dev, a, epoch, i, units.load(dev, send, begin + i));

      for (std::size_t i = first; i < size; i += step) {
        Share result = units.load(dev, send, begin + i);
        if (!reduce<Batch>(dev, a, epoch, i, reducer, result)) return;
        units.store(dev, recv, begin + i, result);
      }
    }

    dev.sync();  // all threads of the block have read the epoch
    if (dev.thread() == 0) a.epochs[dev.block()] = epoch.value;
  }

  /// Starts at the next rank, so that no two ranks write to the same peer first.
  template <Device D>
  PLAIT_DEVICE static void push(D& dev, const Args& a, Epoch epoch, std::size_t slot, const Share& mine) {
    for (int step = 1; step < a.ranks; ++step)
      dev.put(slot_at(a, rank_after(a.rank, step, a.ranks), dev.block(), epoch, a.rank, slot), mine, epoch.value);
  }

  /// `result`: this rank's input, and then the reduction.
  template <int Batch, Device D>
  PLAIT_DEVICE static bool reduce(D& dev, const Args& a, Epoch epoch, std::size_t slot, const Reducer<T>& reducer, Share& result) {
    const Share mine = result;
    UnitSum<Unit, T> sum(reducer, mine);
    for (int first = 0; first < a.ranks; first += Batch) {
      // Ranks first .. first + size - 1, without this one, which sends itself nothing.
      const int size = a.ranks - first < Batch ? a.ranks - first : Batch;
      const int own = a.rank - first;
      const typename Unit::Slot* slots[Batch];
      Waiting who[Batch];
      Share shares[Batch];
      unsigned others = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        if (j < size && j != own) others |= 1u << j;
        slots[j] = slot_at(a, a.rank, dev.block(), epoch, first + j, slot);
        who[j] = {first + j, epoch.value};
      }
      if (!dev.get(slots, shares, others, epoch.value, who)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        if (j >= size) break;
        sum.add(first + j, j == own ? mine : shares[j]);
      }
    }
    result = sum.result();
    return true;
  }

  PLAIT_DEVICE static typename Unit::Slot* slot_at(const Args& a, int owner, unsigned block, Epoch epoch, int writer, std::size_t slot) {
    return reinterpret_cast<typename Unit::Slot*>(a.scratch.peer_ptr(owner)) + a.layout.at(block, epoch, writer, slot);
  }
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Oneshot<T, PacketUnit>::run(dev, a);
  }
};

}  // namespace plait::oneshot_ll
