// Recursive-doubling all-reduce in flagged packets: log2(n) hops, for small messages on many ranks.
//
// Let p be the largest power of two up to n. Ranks p and above are guests; the host of guest r is
// rank r - p. The message is cut into one stripe per block, and a stripe into rounds of at most
// `slots` packets. In each round, a thread takes all its packets through one phase (in phase 2: one
// s) before the next:
//   1. Fold: a guest sends its input to its host, which adds it to its own.
//   2. Double: for s = 0, 1, ... the first p ranks exchange their partial results with rank XOR 2^s
//      and add them, the lower rank's term first. So both partners, and in the end all ranks, hold
//      the same bits.
//   3. Unfold: hosts send the result to their guests.
// Partial results travel in the type of the data (`Reducer::start`, `add_partial`, `rounded`) and
// wait in `recv` for their next phase.
//
// Cost: log2(p) hops and log2(p) * 2 * bytes out of each rank. Where n is not a power of two: two
// more hops, and twice 2 * bytes more.
// Resources: blocks * 2 halves * (log2(p) + 1) steps * slots packets of scratch memory, one epoch
// per block.
//
// Why no barrier is needed. As in oneshot_ll, a packet's flag says that its data is there. Each
// step has slots of its own, so a fast partner's later step never meets an earlier one. A slot has
// one writing and one reading rank, and two halves, for odd and even epochs. In round e, the block
// that writes a slot uses half e & 1 again only after one of its threads has finished round e - 1
// and the block has synchronised. In round e - 1 that thread received a packet from the slot's
// reader: partners of a doubling step exchange packets in both directions, and host and guest do so
// by phases 1 and 3. The reader's block sent that packet after it had synchronised, so after all
// its threads had finished round e - 2, the last round that read this half. For phase 3 the order
// within a round is reversed: in round e, the host writes the guest's slot after it has received
// the guest's packet of round e, which the guest sent after it had finished round e - 1. Blocks
// share neither slots nor epochs.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/units.hpp"
#include "algorithms/blocks/patterns/doubling_schedule.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::recursive_doubling {

using Types = ReducedTypes;

struct Args {
  WindowView scratch;
  LLLayout layout;  // one lane per step
  DoublingSchedule schedule;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Partition stripes;      // of the message's packets
  std::uint32_t* epochs;  // one per block
  Reduction reduction;
};

template <class T>
struct Kernel {
  using Elements = PacketElements<T>;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const Packs<const T, packet_bytes> send(static_cast<const T*>(a.send), a.count);
    const Packs<T, packet_bytes> recv(static_cast<T*>(a.recv), a.count);
    const Reducer<T> reducer(a.reduction);
    const Range stripe = a.stripes.at(dev.block());
    Epoch epoch{a.epochs[dev.block()]};

    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += a.layout.slots) {
      // All threads have finished the previous round before one of them sends in this one.
      if (begin != stripe.begin) dev.sync();
      epoch = epoch.next();
      const std::size_t size =
          stripe.end - begin < a.layout.slots ? stripe.end - begin : a.layout.slots;
      for (int stage = 0; stage < a.schedule.stages; ++stage)
        for (std::size_t i = dev.thread(); i < size; i += dev.threads()) {
          const Elements own =
              stage == 0
                  ? reducer.template rounded<packet_bytes>(reducer.start(send.load(dev, begin + i)))
                  : recv.load(dev, begin + i);
          Elements partial;
          if (!advance(dev, a, epoch, stage, i, reducer, own, partial)) return;
          recv.store(dev, begin + i, partial);
        }
    }

    dev.sync();  // all threads of the block have read the epoch
    if (dev.thread() == 0) a.epochs[dev.block()] = epoch.value;
  }

 private:
  /// Takes one packet through a stage.
  template <Device D>
  PLAIT_DEVICE static bool advance(D& dev, const Args& a, Epoch epoch, int stage, std::size_t slot,
                                   const Reducer<T>& reducer, const Elements& own,
                                   Elements& partial) {
    const auto packet = [&](int owner, int step) {
      return reinterpret_cast<Packet*>(a.scratch.peer_ptr(owner)) +
             a.layout.at(dev.block(), epoch, step, static_cast<std::uint32_t>(slot));
    };
    const DoublingSchedule& schedule = a.schedule;
    partial = own;
    if (const auto message = schedule.incoming(stage); message.exists()) {
      const Packet* const packets[1] = {packet(schedule.rank, message.step)};
      const Waiting who[1] = {{message.peer, static_cast<std::uint32_t>(message.step)}};
      PacketData data[1];
      if (!dev.get(packets, data, 1u, epoch.value, who)) return false;
      const Elements other = from_packet<T>(data[0]);
      if (schedule.is_guest) partial = other;  // the result
      else
        partial =
            schedule.rank < message.peer ? add(reducer, own, other) : add(reducer, other, own);
    }
    if (const auto message = schedule.outgoing(stage); message.exists())
      dev.put(packet(message.peer, message.step), to_packet<T>(partial), epoch.value);
    if (stage + 1 == schedule.stages)
      partial = reducer.template finish<packet_bytes>(reducer.widened(partial));
    return true;
  }

  PLAIT_DEVICE static Elements add(const Reducer<T>& reducer, const Elements& first,
                                   const Elements& second) {
    auto sum = reducer.widened(first);
    reducer.add_partial(sum, second);
    return reducer.template rounded<packet_bytes>(sum);
  }
};

}  // namespace plait::recursive_doubling
