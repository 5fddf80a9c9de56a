// One-shot all-reduce with flagged packets: the lowest latency for small messages.
//
// The message is cut into one stripe a block, and a stripe into rounds of at most `slots` packets. In each round, a thread
//   1. pushes its packets of 8 bytes, with the round's epoch as flag, into every peer's scratch, and then
//   2. polls the packets of all peers at its own scratch and reduces them with its input in rank order, so that all ranks get the same
//   bits.
//
// Cost: one hop; (n - 1) * 2 * bytes leave each rank. Resources: 2 halves * blocks * n writers * slots packets of scratch, one epoch a
// block.
//
// Why no barrier is needed. Data and flag of a packet arrive together, so polling the flag is enough to read the data. The scratch of a
// block has two halves, used by odd and even epochs, and within them every slot has one writing rank. A block writes half e & 1 of a peer
// in round e only after one of its threads has finished round e - 1 and the block has synchronised (within a call by `sync`, between calls
// by the end of the kernel). That thread needed the peer's packets of round e - 1, which the peer's block sent after it had synchronised in
// the same way, so after all of its threads had finished round e - 2, the last one that read this half. Without the `sync`, a short last
// round, in which most threads have no packet, would let a block overtake a peer's thread by two rounds. A block uses only its own part of
// scratch and its own epoch, so this holds for each block whatever the others do.
#pragma once
#include "backends/device.hpp"
#include "backends/kernel_table.hpp"

namespace plait::oneshot_ll {

using Types = AllTypes;

/// Where packets lie in a rank's scratch: [block][half][writer][slot].
struct Layout {
  std::uint32_t slots;  // packets a writer, half and block
  int ranks;

  PLAIT_DEVICE std::size_t packet(unsigned block, unsigned half, int writer, std::size_t slot) const {
    return ((std::size_t{block} * 2 + half) * static_cast<unsigned>(ranks) + static_cast<unsigned>(writer)) * slots + slot;
  }
  constexpr std::size_t packets(unsigned blocks) const { return std::size_t{blocks} * 2 * static_cast<unsigned>(ranks) * slots; }
};

struct Args {
  WindowView scratch;
  Layout layout;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Parts stripes;          // of the message's packets
  std::uint32_t* epochs;  // one a block, in device memory: a captured launch advances them at every replay
  Reduction reduction;
  int rank, ranks;
};

template <class T>
struct Kernel {
  using Elements = PacketElements<T>;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if (a.ranks <= 2) run_batched<2>(dev, a);
    else if (a.ranks <= 4) run_batched<4>(dev, a);
    else run_batched<8>(dev, a);
  }

 private:
  /// `Batch`: ranks whose packets are polled at once.
  template <int Batch, Device D>
  PLAIT_DEVICE static void run_batched(D& dev, const Args& a) {
    const Packs<const T, packet_bytes> send(static_cast<const T*>(a.send), a.count);
    const Packs<T, packet_bytes> recv(static_cast<T*>(a.recv), a.count);
    const Reducer<T> reducer(a.reduction);
    const Range stripe = a.stripes.at(dev.block());
    Epoch epoch{a.epochs[dev.block()]};

    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += a.layout.slots) {
      if (begin != stripe.begin) dev.sync();  // the whole block has finished the last round before anybody sends in this one
      epoch = epoch.next();
      const std::size_t size = stripe.end - begin < a.layout.slots ? stripe.end - begin : a.layout.slots;

      for (std::size_t i = dev.thread(); i < size; i += dev.threads()) push(dev, a, epoch, i, to_packet<T>(send.load(dev, begin + i)));

      for (std::size_t i = dev.thread(); i < size; i += dev.threads()) {
        Elements result;
        if (!reduce<Batch>(dev, a, epoch, i, send.load(dev, begin + i), reducer, result)) return;
        recv.store(dev, begin + i, result);
      }
    }

    dev.sync();  // all threads of the block have read the epoch
    if (dev.thread() == 0) a.epochs[dev.block()] = epoch.value;
  }

  /// Starts at the next rank, so that no two ranks write to the same peer first.
  template <Device D>
  PLAIT_DEVICE static void push(D& dev, const Args& a, Epoch epoch, std::size_t slot, PacketData mine) {
    for (int step = 1; step < a.ranks; ++step)
      dev.put(packet_at(a, rank_after(a.rank, step, a.ranks), dev.block(), epoch, a.rank, slot), mine, epoch.value);
  }

  template <int Batch, Device D>
  PLAIT_DEVICE static bool reduce(D& dev, const Args& a, Epoch epoch, std::size_t slot, const Elements& mine, const Reducer<T>& reducer,
                                  Elements& result) {
    auto sum = reducer.start(mine);  // replaced below unless this is rank 0
    for (int first = 0; first < a.ranks; first += Batch) {
      // Ranks first .. first + size - 1, without this one, which sends itself nothing.
      const int size = a.ranks - first < Batch ? a.ranks - first : Batch;
      const int own = a.rank - first;
      const Packet* packets[Batch];
      Waiting who[Batch];
      PacketData data[Batch];
      unsigned others = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        if (j < size && j != own) others |= 1u << j;
        packets[j] = packet_at(a, a.rank, dev.block(), epoch, first + j, slot);
        who[j] = {first + j, epoch.value};
      }
      if (!dev.get(packets, data, others, epoch.value, who)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        if (j >= size) break;
        const Elements term = j == own ? mine : from_packet<T>(data[j]);
        if (first + j == 0) sum = reducer.start(term);
        else reducer.add(sum, term);
      }
    }
    result = reducer.template finish<packet_bytes>(sum);
    return true;
  }

  PLAIT_DEVICE static Packet* packet_at(const Args& a, int owner, unsigned block, Epoch epoch, int writer, std::size_t slot) {
    return reinterpret_cast<Packet*>(a.scratch.peer_ptr(owner)) + a.layout.packet(block, epoch.half(), writer, slot);
  }
};

}  // namespace plait::oneshot_ll
