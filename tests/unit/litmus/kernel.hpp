// The words that all algorithms rest on, alone and in any number: data that travel with their flag
// (packets, lines), data that mark their own arrival, and data that are published by a signal.
// Every word is checked against what its writer must have written in that round.
//
// All ranks write to all ranks, a slot for each writer and parity of the round, with the proof of
// oneshot_ll: two halves are enough because a round ends with something received from every peer.
// Threads are held up for a random while before each access, each by itself, so that the threads of
// a warp come to it apart.
#pragma once
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::litmus {

using Types = TypeList<std::uint32_t>;

enum class Mode : std::uint32_t { packets, lines, messages, marked };

struct Args {
  WindowView slots, signals;    // signals: [block][writer]
  std::uint32_t* wrong;         // one a thread
  std::uint32_t first, rounds;  // epochs
  std::uint32_t delay;          // at most so many steps of a thread's own before an access; 0: none
  Mode mode;
  int rank, ranks;
};

inline constexpr std::size_t slot_bytes = sizeof(Line);  // a thread, or the threads of a line

/// The size of one rank's memory.
constexpr std::size_t bytes_for(unsigned blocks, unsigned threads, int ranks) {
  return std::size_t{blocks} * 2 * static_cast<unsigned>(ranks) * threads * slot_bytes;
}

template <class D>
class Litmus {
 public:
  PLAIT_DEVICE Litmus(D& dev, const Args& a)
      : dev_(dev), a_(a), random_(hash(dev.block(), dev.thread(), static_cast<unsigned>(a.rank))) {}

  PLAIT_DEVICE void run() {
    for (std::uint32_t r = 0; r < a_.rounds; ++r) {
      if (r != 0) dev_.sync();
      epoch_ = a_.first + r;
      if (a_.mode == Mode::packets && !packets()) return;
      if (a_.mode == Mode::messages && !messages()) return;
      if (a_.mode == Mode::marked && !marked(r)) return;
      if constexpr (D::line_threads != 0) {
        if (a_.mode == Mode::lines && !lines()) return;
      }
    }
    a_.wrong[dev_.block() * dev_.threads() + dev_.thread()] += wrong_;
  }

 private:
  PLAIT_DEVICE static std::uint32_t hash(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t x = a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
  }
  /// Word `i` of what `writer` sends in this round from this block.
  PLAIT_DEVICE std::uint32_t pattern(int writer, std::uint32_t slot, std::uint32_t i) const {
    return hash(epoch_, dev_.block() * 4096 + slot, static_cast<std::uint32_t>(writer) * 64 + i);
  }
  PLAIT_DEVICE PacketData words(int writer, std::uint32_t slot, std::uint32_t i) const {
    return {{pattern(writer, slot, 2 * i), pattern(writer, slot, 2 * i + 1)}};
  }
  PLAIT_DEVICE void compare(PacketData got, PacketData wanted) {
    if (got.word[0] != wanted.word[0] || got.word[1] != wanted.word[1]) ++wrong_;
  }
  PLAIT_DEVICE void hold_up() {
    if (a_.delay == 0) return;
    std::uint32_t steps = (random_ = random_ * 1664525u + 1013904223u) >> 8;
    for (steps %= a_.delay + 1; steps != 0; --steps) random_ ^= random_ << 7 ^ random_ >> 9;
  }

  PLAIT_DEVICE std::byte* slot(int owner, int writer, std::uint32_t index) const {
    const std::size_t lane =
        (std::size_t{dev_.block()} * 2 + epoch_ % 2) * static_cast<unsigned>(a_.ranks) +
        static_cast<unsigned>(writer);
    return a_.slots.peer_ptr(owner, (lane * dev_.threads() + index) * slot_bytes);
  }

  PLAIT_DEVICE bool packets() {
    const std::uint32_t me = dev_.thread();
    for (int s = 0; s < a_.ranks; ++s) {
      hold_up();
      dev_.put(reinterpret_cast<Packet*>(slot(rank_after(a_.rank, s, a_.ranks), a_.rank, me)),
               words(a_.rank, me, 0), epoch_);
    }
    for (int peer = 0; peer < a_.ranks; ++peer) {
      hold_up();
      const Packet* const from[1] = {reinterpret_cast<const Packet*>(slot(a_.rank, peer, me))};
      const Waiting who[1] = {{peer, epoch_}};
      PacketData data[1];
      if (!dev_.get(from, data, 1u, epoch_, who)) return false;
      compare(data[0], words(peer, me, 0));
    }
    return true;
  }

  /// Gets lines in pairs, as algorithms do in batches. A quarter of all lines are left out, others
  /// in each round, but for the first, so that a round needs all peers. The thread with the flag
  /// branches before each access, as it does in an algorithm, because it has less data than the
  /// others.
  PLAIT_DEVICE bool lines() {
    constexpr int share_words = 16 / D::line_threads;
    const std::uint32_t line = dev_.thread() / D::line_threads;
    const std::uint32_t first = dev_.thread() % D::line_threads * share_words;
    const auto sends = [&](int writer) {
      return line == 0 || (pattern(writer, line, 63) & 3u) != 0;
    };
    const auto come_apart = [&] {
      if (first + share_words == 16) hold_up();
      hold_up();
    };
    for (int s = 0; s < a_.ranks; ++s) {
      LineShare<share_words> share{};
      PLAIT_UNROLL
      for (unsigned i = 0; i < share_words; ++i)
        if (first + i < 15) share.word[i] = words(a_.rank, line, first + i);
      come_apart();
      dev_.put(reinterpret_cast<Line*>(slot(rank_after(a_.rank, s, a_.ranks), a_.rank, line)),
               share, epoch_, sends(a_.rank));
    }
    for (int peer = 0; peer < a_.ranks; peer += 2) {
      const int other = peer + 1 < a_.ranks ? peer + 1 : peer;
      const Line* const from[2] = {reinterpret_cast<const Line*>(slot(a_.rank, peer, line)),
                                   reinterpret_cast<const Line*>(slot(a_.rank, other, line))};
      const Waiting who[2] = {{peer, epoch_}, {other, epoch_}};
      const bool wanted[2] = {sends(peer), other != peer && sends(other)};
      LineShare<share_words> shares[2];
      come_apart();
      if (!dev_.get(from, shares, (wanted[0] ? 1u : 0u) | (wanted[1] ? 2u : 0u), epoch_, who))
        return false;
      PLAIT_UNROLL
      for (unsigned i = 0; i < share_words; ++i) {
        if (first + i >= 15) continue;
        if (wanted[0]) compare(shares[0].word[i], words(peer, line, first + i));
        if (wanted[1]) compare(shares[1].word[i], words(other, line, first + i));
      }
    }
    return true;
  }

  /// Every thread's data, one thread's signal.
  PLAIT_DEVICE bool messages() {
    using P = Pack<std::uint32_t, D::pack_bytes>;
    const std::uint32_t me = dev_.thread();
    for (int s = 0; s < a_.ranks; ++s) {
      P pack;
      PLAIT_UNROLL
      for (unsigned i = 0; i < P::lanes; ++i) pack.lane[i] = pattern(a_.rank, me, i);
      hold_up();
      dev_.store(reinterpret_cast<P*>(slot(rank_after(a_.rank, s, a_.ranks), a_.rank, me)), pack);
    }
    dev_.sync();
    const auto signal = [&](int owner, int writer) {
      return reinterpret_cast<std::uint32_t*>(a_.signals.peer_ptr(owner)) +
             dev_.block() * static_cast<unsigned>(a_.ranks) + static_cast<unsigned>(writer);
    };
    bool arrived = true;
    if (me == 0) {
      for (int peer = 0; peer < a_.ranks; ++peer) dev_.signal(signal(peer, a_.rank), epoch_);
      for (int peer = 0; peer < a_.ranks && arrived; ++peer)
        arrived = dev_.wait(signal(a_.rank, peer), epoch_, {peer, epoch_});
    }
    if (!dev_.all(arrived)) return false;
    for (int peer = 0; peer < a_.ranks; ++peer) {
      hold_up();
      const P pack = dev_.load(reinterpret_cast<const P*>(slot(a_.rank, peer, me)));
      PLAIT_UNROLL
      for (unsigned i = 0; i < P::lanes; ++i)
        if (pack.lane[i] != pattern(peer, me, i)) ++wrong_;
    }
    return true;
  }

  /// Rounds in the order and with the sets of algorithms/blocks/flags/marked.hpp: a round is sent
  /// before the one ahead of it is taken.
  PLAIT_DEVICE bool marked(std::uint32_t r) {
    if (r == 0) send_marked(epoch_);
    else if (dev_.thread() == 0) dev_.release();
    if (r + 1 < a_.rounds) send_marked(epoch_ + 1);
    const std::uint32_t me = dev_.thread();
    for (int peer = 0; peer < a_.ranks; peer += 2) {
      const int other = peer + 1 < a_.ranks ? peer + 1 : peer;
      const Marked* const from[2] = {place(a_.rank, peer, epoch_), place(a_.rank, other, epoch_)};
      const Waiting who[2] = {{peer, epoch_}, {other, epoch_}};
      Marked data[2];
      hold_up();
      if (!dev_.take(from, data, other != peer ? 3u : 1u, epoch_, who)) return false;
      for (int j = 0; j < (other != peer ? 2 : 1); ++j) {
        if (me == 0) dev_.acquire(from[j]);
        const Marked wanted = marked_words(peer + j, me, epoch_);
        if (data[j].word[0] != wanted.word[0] || data[j].word[1] != wanted.word[1]) ++wrong_;
        hold_up();
        dev_.empty(place(a_.rank, peer + j, epoch_));
      }
    }
    return true;
  }
  PLAIT_DEVICE void send_marked(std::uint32_t round) {
    const std::uint32_t me = dev_.thread();
    for (int s = 0; s < a_.ranks; ++s) {
      hold_up();
      dev_.put(place(rank_after(a_.rank, s, a_.ranks), a_.rank, round),
               marked_words(a_.rank, me, round));
    }
  }
  PLAIT_DEVICE Marked marked_words(int writer, std::uint32_t slot, std::uint32_t round) const {
    const auto half = [&](std::uint32_t i) {  // not zero
      return std::uint64_t{hash(round, dev_.block() * 4096 + slot,
                                static_cast<std::uint32_t>(writer) * 64 + i)}
                 << 32 |
             1u;
    };
    return {{half(0), half(1)}};
  }
  PLAIT_DEVICE Marked* place(int owner, int writer, std::uint32_t round) const {
    const std::size_t lane =
        (std::size_t{dev_.block()} * 4 + round % 4) * static_cast<unsigned>(a_.ranks) +
        static_cast<unsigned>(writer);
    return reinterpret_cast<Marked*>(
        a_.slots.peer_ptr(owner, (lane * dev_.threads() + dev_.thread()) * sizeof(Marked)));
  }

  D& dev_;
  const Args& a_;
  std::uint32_t random_;
  std::uint32_t epoch_ = 0;
  std::uint32_t wrong_ = 0;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Litmus<D>(dev, a).run();
  }
};

}  // namespace plait::litmus
