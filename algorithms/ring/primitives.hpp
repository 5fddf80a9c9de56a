// The five primitives of a ring: all that its kernels know of their neighbours.
//
// A channel is one block a rank. Between a rank and the next lies a ring of slots in the next rank's scratch, with two counters that only
// grow:
//   published  written by the sender into the receiver's memory, after it has filled a slot;
//   consumed   written by the receiver into the sender's memory, after it has emptied one.
// A slot may be filled iff published - consumed < slots, and emptied iff published > the number emptied so far. Each side polls its own
// memory.
//
// Why this is enough. A counter has one writer. The sender's stores to a slot come before its release of `published` (the block's `sync`
// makes one thread's release speak for all), and the receiver's `wait` is the acquire; the receiver's loads come before its release of
// `consumed` in the same way, and the sender acquires that before it fills the slot again. Counters persist from call to call in device
// memory, so a call begins where the last one ended, no end handshake is needed and a captured launch can be replayed. Chunks that are sent
// are always the size that the neighbour expects, because both compute it from the same arguments.
//
// Why it can't deadlock. With two slots or more, a rank that waits to send has a slot's worth of data on the way to the next; going round
// the ring, some rank always has data to receive and a free slot to send to (with one slot, all could hold a full slot and wait for each
// other).
#pragma once
#include "algorithms/ring/schedule.hpp"
#include "backends/device.hpp"
#include "backends/kernel_table.hpp"

namespace plait::ring {

/// Slots and counters of a rank's channels in its scratch and signal memory.
struct Layout {
  std::size_t slot_bytes;
  std::uint32_t slots;  // a channel; 2 or more

  PLAIT_DEVICE std::size_t slot_offset(unsigned channel, std::uint32_t index) const {
    return (std::size_t{channel} * slots + index % slots) * slot_bytes;  // slots is a power of two: the index may wrap
  }
  constexpr std::size_t bytes(unsigned channels) const { return std::size_t{channels} * slots * slot_bytes; }
};

/// A channel's counters that peers write; one cache line, so that the two writers don't disturb each other's polling much.
struct alignas(64) ChannelSignals {
  std::uint32_t published;  // by the previous rank: slots filled here
  std::uint32_t consumed;   // by the next rank: slots emptied there
};

/// A channel's private counters between calls.
struct ChannelState {
  std::uint32_t sent, received;
};

/// The n chunks of a round, in packs. A slot's worth each, but for the last round.
struct Chunks {
  std::size_t begin;
  Parts parts;

  /// Of at most `slot_packs * ranks` packs, from `begin`.
  PLAIT_DEVICE static Chunks of(std::size_t begin, std::size_t size, std::uint32_t slot_packs, int ranks) {
    const auto n = static_cast<std::uint32_t>(ranks);
    if (size == std::size_t{slot_packs} * n) return {begin, {size, slot_packs}};
    return {begin, {size, (static_cast<std::uint32_t>(size) + n - 1) / n}};
  }
  PLAIT_DEVICE Range at(int chunk) const {
    const Range part = parts.at(static_cast<unsigned>(chunk));
    return {begin + part.begin, begin + part.end};
  }
};

template <class T, Device D>
class Primitives {
 public:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;

  PLAIT_DEVICE Primitives(D& dev, const Input& in, const Output& out, const Reducer<T>& reducer, const Place& place, const Layout& layout,
                          WindowView scratch, WindowView signals, ChannelState state)
      : dev_(dev),
        in_(in),
        out_(out),
        reducer_(reducer),
        place_(place),
        layout_(layout),
        scratch_(scratch),
        signals_(signals),
        state_(state) {}

  PLAIT_DEVICE void set_chunks(const Chunks& chunks) { chunks_ = chunks; }
  PLAIT_DEVICE ChannelState state() const { return state_; }

  PLAIT_DEVICE bool send(int chunk) { return step<false, false, true>(chunk); }
  PLAIT_DEVICE bool recv_reduce_send(int chunk) { return step<true, false, true, true>(chunk); }
  PLAIT_DEVICE bool recv_reduce_copy_send(int chunk) { return step<true, true, true, true>(chunk); }
  PLAIT_DEVICE bool recv_copy_send(int chunk) { return step<true, true, true>(chunk); }
  PLAIT_DEVICE bool recv(int chunk) { return step<true, true, false>(chunk); }
  /// A ring of one.
  PLAIT_DEVICE bool copy(int chunk) { return step<false, true, false>(chunk); }

 private:
  static constexpr int unroll = D::pack_bytes >= 64 ? 1 : sizeof(T) == 1 ? 2 : 4;  // sums of 8-bit elements take four times their room

  /// Receive a chunk, add the own input to it, store it, send it on: in this order, and each of them optional.
  template <bool Recv, bool Copy, bool Send, bool Reduce = false>
  PLAIT_DEVICE bool step(int chunk) {
    if (!ready<Recv, Send>(chunk)) return false;
    const Range range = chunks_.at(chunk);
    const P* from = Recv ? slot(place_.rank_at(place_.position), state_.received) : nullptr;
    P* to = Send ? slot(place_.next(), state_.sent) : nullptr;
    const std::size_t stride = dev_.threads();
    std::size_t i = dev_.thread();
    for (; i + (unroll - 1) * stride < range.size(); i += unroll * stride) move<Recv, Copy, Send, Reduce, unroll>(range.begin, i, from, to);
    for (; i < range.size(); i += stride) move<Recv, Copy, Send, Reduce, 1>(range.begin, i, from, to);
    finish<Recv, Send>();
    return true;
  }

  template <bool Recv, bool Copy, bool Send, bool Reduce, int Count>
  PLAIT_DEVICE void move(std::size_t base, std::size_t i, const P* from, P* to) {
    P received[Count], own[Count];
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) {
      if constexpr (Recv) {
        received[u] = dev_.load(from + i + u * dev_.threads());
      }
      if constexpr (Reduce || !Recv) {
        own[u] = in_.load(dev_, base + i + u * dev_.threads());
      }
    }
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) {
      P partial;
      if constexpr (Reduce || !Recv) {
        auto sum = reducer_.enter(own[u]);
        if constexpr (Reduce) {
          reducer_.add_partial(sum, received[u]);
        }
        partial = reducer_.template rounded<sizeof(P)>(sum);
      } else {
        partial = received[u];
      }
      if constexpr (Send) {
        dev_.store(to + i + u * dev_.threads(), partial);
      }
      if constexpr (Copy) {
        out_.store(dev_, base + i + u * dev_.threads(), reducer_.leave(partial));
      }
    }
  }

  /// Waits for a slot to read and for a slot to write: two threads wait at the same time where there are two.
  template <bool Recv, bool Send>
  PLAIT_DEVICE bool ready(int chunk) {
    const auto step = static_cast<std::uint32_t>(chunk);
    bool ok = true;
    if (Recv && dev_.thread() == 0) ok = dev_.wait(&channel(own_rank())->published, state_.received + 1, {place_.previous(), step});
    if (Send && ok && dev_.thread() == 1 % dev_.threads())
      ok = dev_.wait(&channel(own_rank())->consumed, state_.sent + 1 - layout_.slots, {place_.next(), step});
    return dev_.all(ok);
  }

  template <bool Recv, bool Send>
  PLAIT_DEVICE void finish() {
    dev_.sync();  // all threads have read the one slot and written the other
    if (Send) ++state_.sent;
    if (Recv) ++state_.received;
    if (Send && dev_.thread() == 0) dev_.signal(&channel(place_.next())->published, state_.sent);
    if (Recv && dev_.thread() == 1 % dev_.threads()) dev_.signal(&channel(place_.previous())->consumed, state_.received);
  }

  PLAIT_DEVICE int own_rank() const { return place_.rank_at(place_.position); }
  PLAIT_DEVICE P* slot(int owner, std::uint32_t index) const {
    return reinterpret_cast<P*>(scratch_.peer_ptr(owner, layout_.slot_offset(dev_.block(), index)));
  }
  PLAIT_DEVICE ChannelSignals* channel(int owner) const {
    return reinterpret_cast<ChannelSignals*>(signals_.peer_ptr(owner)) + dev_.block();
  }

  D& dev_;
  const Input& in_;
  const Output& out_;
  const Reducer<T>& reducer_;
  Place place_;
  Layout layout_;
  WindowView scratch_, signals_;
  ChannelState state_;
  Chunks chunks_{};
};

}  // namespace plait::ring
