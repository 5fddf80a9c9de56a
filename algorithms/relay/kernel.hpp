// Two-hop broadcast on symmetric memory: middle to large messages on three ranks or more. The root sends every byte once, to one rank,
// which passes it on to the others while the root sends the next ones; in one hop it would have to send n - 1 times as much.
//
// The message is cut into one slice for each rank but the root, a slice into one stripe a block, and a stripe into pieces.
//   1. Enter: a barrier among the blocks b of all ranks: outputs may be written.
//   2. The root: for each k, stores piece k of every slice into the output of the slice's rank (and into its own), and tells these ranks.
//   3. The others: for each k, wait for piece k of their slice, load it from their own output, and store it into those of all ranks but
//      the root.
//   4. Leave: a second barrier: all pieces have arrived everywhere.
//
// Why no barrier is missing. Of each byte of an output there is one writer, the root in the output of the byte's rank and that rank in all
// others; so nothing is overwritten, and nobody needs room. Piece k is read in step 3 after `wait` has acquired what the root released
// after it had stored the piece. The root waits for nobody between the barriers, so the others' waits end. In place, the root's output is
// its input, which only it writes, if at all.
//
// Counters of pieces have one writer each and only grow, from call to call; both ends keep where they stood, for every peer, as any rank
// may be the next root.
//
// Cost: two barriers and a signal; the message once out of the root, (n - 2) / (n - 1) of it out of each other rank.
#pragma once
#include "algorithms/building_blocks/block_barrier.hpp"
#include "algorithms/building_blocks/moved_as.hpp"
#include "algorithms/building_blocks/pack_loop.hpp"
#include "algorithms/building_blocks/pieces.hpp"

namespace plait::relay {

using Types = MovedTypes;

/// What a block has put at a peer, and had from it, up to the last call.
struct PieceCounts {
  std::uint32_t sent, received;
};

struct Args {
  WindowView signals;  // of the barriers
  WindowView arrived;  // pieces from a peer: [block][writer]
  WindowView recv;     // outputs
  const void* send;    // the root's
  std::size_t count;
  Parts slices;           // of the message, in bytes: `slices_of`, from the root's next rank on
  Parts stripes;          // of a slice, one a block
  Pieces pieces;          // of a stripe
  std::uint32_t* epochs;  // one a block
  PieceCounts* counts;    // [block][peer]
  int rank, ranks, root;
};

/// One for each rank but the root; a rank alone is its own.
PLAIT_DEVICE constexpr int slices_of(int ranks) { return ranks > 1 ? ranks - 1 : 1; }

template <class T, class D>
class Relay {
 public:
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const std::uint32_t epoch = a.epochs[dev.block()];
    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch + 1)) return;
    Relay relay(dev, a);
    if (a.rank == a.root) relay.send();
    else if (!relay.pass_on()) return;
    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch + 2)) return;
    if (dev.thread() == 0) a.epochs[dev.block()] = epoch + 2;
  }

 private:
  static constexpr std::size_t pack_bytes = D::pack_bytes;
  static constexpr int in_flight = pack_bytes >= 64 ? 1 : 8;

  PLAIT_DEVICE Relay(D& dev, const Args& a) : dev_(dev), a_(a) {}

  PLAIT_DEVICE int owner(int slice) const { return rank_after(a_.root, slice + 1, a_.ranks); }
  /// This block's stripe of a slice, in bytes of the message.
  PLAIT_DEVICE Range stripe(int slice) const {
    const Range whole = a_.slices.at(static_cast<unsigned>(slice)), part = a_.stripes.at(dev_.block());
    const auto clipped = [&](std::size_t offset) { return whole.begin + offset < whole.end ? whole.begin + offset : whole.end; };
    return {clipped(part.begin), clipped(part.end)};
  }
  PLAIT_DEVICE std::size_t place(int peer) const {
    return std::size_t{dev_.block()} * static_cast<unsigned>(a_.ranks) + static_cast<unsigned>(peer);
  }
  PLAIT_DEVICE std::uint32_t* arrived(int at, int from) const {
    return reinterpret_cast<std::uint32_t*>(a_.arrived.peer_ptr(at)) + place(from);
  }
  PLAIT_DEVICE T* output(int rank) const { return reinterpret_cast<T*>(a_.recv.peer_ptr(rank)); }

  PLAIT_DEVICE void send() {
    const int slices = slices_of(a_.ranks);
    const auto* const input = static_cast<const T*>(a_.send);
    const std::uint32_t most = a_.pieces.count(a_.stripes.at(dev_.block()));
    for (std::uint32_t k = 0; k < most; ++k) {
      for (int s = 0; s < slices; ++s) {
        const Range packs = in_packs<pack_bytes>(a_.pieces.at(stripe(s), k));
        copy(packs, input, output(owner(s)));
        if (input != output(a_.rank)) copy(packs, input, output(a_.rank));
      }
      dev_.sync();  // all threads have stored
      for (int s = static_cast<int>(dev_.thread()); s < slices; s += static_cast<int>(dev_.threads()))
        if (k < a_.pieces.count(stripe(s))) dev_.signal(arrived(owner(s), a_.rank), a_.counts[place(owner(s))].sent + k + 1);
    }
    dev_.sync();  // the counts have been read
    for (int s = static_cast<int>(dev_.thread()); s < slices; s += static_cast<int>(dev_.threads()))
      a_.counts[place(owner(s))].sent += a_.pieces.count(stripe(s));
  }

  PLAIT_DEVICE bool pass_on() {
    const int slice = rank_after(a_.rank, a_.ranks - a_.root, a_.ranks) - 1;  // the one that `owner` gives to this rank
    const Range mine = stripe(slice);
    const std::uint32_t pieces = a_.pieces.count(mine);
    for (std::uint32_t k = 0; k < pieces; ++k) {
      bool there = true;
      if (dev_.thread() == 0) there = dev_.wait(arrived(a_.rank, a_.root), a_.counts[place(a_.root)].received + k + 1, {a_.root, k});
      if (!dev_.all(there)) return false;
      const Range packs = in_packs<pack_bytes>(a_.pieces.at(mine, k));
      for (int step = 1; step < a_.ranks; ++step) {
        const int peer = rank_after(a_.rank, step, a_.ranks);
        if (peer != a_.root) copy(packs, output(a_.rank), output(peer));
      }
    }
    dev_.sync();  // the count has been read
    if (dev_.thread() == 0) a_.counts[place(a_.root)].received += pieces;
    return true;
  }

  /// Packs of `input` to the same place of `output`.
  PLAIT_DEVICE void copy(const Range& range, const T* input, T* output) {
    copy_packs<in_flight>(dev_, Packs<const T, pack_bytes>(input, a_.count), Packs<T, pack_bytes>(output, a_.count), range);
  }

  D& dev_;
  const Args& a_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Relay<T, D>::run(dev, a);
  }
};

}  // namespace plait::relay
