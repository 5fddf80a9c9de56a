// Halving-doubling all-reduce: the least bytes in 2 log2(n) hops, on any memory (Rabenseifner 2004,
// "Optimization of collective reduction operations").
//
// Let p be the largest power of two up to n. Ranks p and above are guests; the host of guest r is
// rank r - p. The message is cut into one stripe per block, and a block's stripe goes through these
// exchanges (schedule.hpp has their order and segments):
//   1. Fold: a guest sends its input to its host, which adds its own and keeps the sum in `recv`.
//   2. Halve: in rounds s = 0, 1, ... the first p ranks exchange with rank XOR 2^s. Each sends the
//      half that the partner keeps, adds what it receives to the half that it keeps itself, and
//      goes on with that half. After the last round it holds one p-th, finished.
//   3. Double: the same rounds backwards, with results: a rank copies the segment that its partner
//      kept.
//   4. Unfold: hosts send the whole stripe to their guests.
// Segments go through the slots of the channels in chunks. In step i, a block sends chunk i of an
// exchange and takes in chunk i - lag. So a step has one wait and one release, and two chunks are
// on their way.
//
// Partial results travel in the type of the data (`Reducer::start`, `add_partial`, `rounded`,
// `finish`) and wait in `recv` for the next round.
//
// Cost: 2 log2(p) hops and 2 (p - 1) / p * bytes out of each rank. Where n is not a power of two:
// two more hops, and up to 2 * bytes more.
// Resources: both ways of the channels (algorithms/blocks/channels/channel.hpp proves that slots
// may be used again), way 0 for fold and halving, way 1 for doubling and unfold. In one call, each
// channel serves one exchange, so each exchange numbers its chunks from 0.
//
// Why it can't deadlock. Partners come to their exchange in the same order of exchanges, and cut it
// into the same chunks. In step i of it, a block waits for chunk i - lag, which the partner sends
// in its step i - lag, and for the slot of chunk i - slots, which the partner empties in its step i
// - slots + lag. With 1 <= lag < slots, both are earlier than step i. So of all blocks with one
// number, the block with the least (round, step) can go on. Guests and hosts wait for each other by
// the same rule, and for no other rank in those exchanges. Slots that an earlier call has filled
// are emptied without this call's help. Block b waits only for block b.
//
// In place is safe. No other rank reads or writes a rank's buffers. A halving round reads the half
// that it sends from `send` (in the first exchange) or `recv`, and writes only the other half.
// Where a rank reads its own term and writes the sum, one thread does both. Doubling writes the
// segment that the halving round with the same partner has sent. A `sync` lies between any two
// exchanges that have chunks.
//
// All ranks get the same bits: one rank finishes an element, and the others copy it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/halving_doubling/schedule.hpp"
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::halving_doubling {

using Types = InRuns<ReducedTypes>;

struct Args {
  Channels channels;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Partition stripes;  // of the message, in bytes, one per block
  Chunks chunks;
  Schedule schedule;
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

template <class T, Device D>
class HalvingDoubling {
 public:
  PLAIT_DEVICE HalvingDoubling(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        channels_(a.channels, dev.block()),
        mover_(dev, a.send, a.recv, a.count, a.reduction) {}

  PLAIT_DEVICE void run() {
    const Range stripe = a_.stripes.at(dev_.block());
    if (a_.schedule.ranks == 1) return alone(stripe);
    for (int i = 0; i < a_.schedule.exchanges(); ++i)
      if (!run(a_.schedule.exchange(i, stripe), i == 0 ? Own::input : Own::output)) return;
  }

 private:
  using P = typename ChunkMover<T, D>::P;
  static constexpr std::uint32_t lag = 2;
  static_assert(1 <= lag && lag < Schedule::slots);

  /// `own`: the buffer that holds this rank's part, which is sent or added to.
  PLAIT_DEVICE bool run(const Exchange& x, Own own) {
    const std::uint32_t sent = chunks(x.out), received = chunks(x.in);
    if (sent == 0 && received == 0) return true;
    for (std::uint32_t i = 0; i < sent || i < received + lag; ++i) {
      const bool sends = i < sent, receives = i - lag < received;  // unsigned: false below lag
      if (!sends && !receives) continue;
      if (!ready(x, i, sends, receives)) return false;
      if (sends) send(x, i, own);
      if (receives) receive(x, i - lag, own);
      announce(x, i, sends, receives);
    }
    dev_.sync();  // all threads have read the counters
    if (dev_.thread() == 0) {
      channels_.advance_sent(x.way, x.peer, sent);
      channels_.advance_received(x.way, x.peer, received);
    }
    return true;
  }

  /// As `Chunks::count`, without a division for ranges of at most one chunk.
  PLAIT_DEVICE std::uint32_t chunks(Range range) const {
    if (range.size() <= a_.chunks.bytes) return range.size() == 0 ? 0 : 1;
    return a_.chunks.count(range);
  }

  PLAIT_DEVICE bool ready(const Exchange& x, std::uint32_t i, bool sends, bool receives) {
    bool ok = true;
    if (receives && dev_.thread() == 0)
      ok = wait(channels_.has_arrived(x.way, x.peer, i - lag), {x.peer, i});
    if (sends && ok && dev_.thread() == 1 % dev_.threads())
      ok = wait(channels_.may_send(x.way, x.peer, i), {x.peer, i});
    return dev_.all(ok);
  }
  PLAIT_DEVICE bool wait(ChannelWait wait, Waiting who) {
    return dev_.wait(wait.word, wait.at_least, who);
  }

  PLAIT_DEVICE void announce(const Exchange& x, std::uint32_t i, bool sends, bool receives) {
    dev_.sync();  // all threads have filled the one slot and emptied the other
    if (sends && dev_.thread() == 0)
      signal(channels_.publish(x.way, x.peer, i,
                               in_whole_packs<D::pack_bytes>(a_.chunks.at(x.out, i))));
    if (receives && dev_.thread() == 1 % dev_.threads())
      signal(channels_.consume(x.way, x.peer, i - lag));
  }
  PLAIT_DEVICE void signal(ChannelSignal signal) { dev_.signal(signal.word, signal.value); }

  PLAIT_DEVICE void send(const Exchange& x, std::uint32_t k, Own own) {
    const Slots<P, 0, 1> slots{{}, {channels_.template outgoing<P>(x.way, x.peer, k)}};
    mover_.template add<0, 1, false>(own, a_.chunks.at(x.out, k), slots);
  }

  PLAIT_DEVICE void receive(const Exchange& x, std::uint32_t k, Own own) {
    const Range chunk = a_.chunks.at(x.in, k);
    const Slots<P, 1, 0> slots{{channels_.template incoming<P>(x.way, x.peer, k)}, {}};
    if (x.reduces) mover_.template add<1, 0, true>(own, chunk, slots, x.finishes);
    else mover_.template copy<0, true>(chunk, slots);
  }

  PLAIT_DEVICE void alone(Range stripe) {
    for (Range chunk = stripe; chunk.begin < stripe.end; chunk.begin = chunk.end) {
      chunk.end =
          chunk.begin + a_.chunks.bytes < stripe.end ? chunk.begin + a_.chunks.bytes : stripe.end;
      mover_.template add<0, 0, true>(Own::input, chunk, Slots<P, 0, 0>{}, true);
    }
  }

  D& dev_;
  const Args& a_;
  BlockChannels channels_;
  ChunkMover<T, D> mover_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    HalvingDoubling<T, D>(dev, a).run();
  }
};

}  // namespace plait::halving_doubling
