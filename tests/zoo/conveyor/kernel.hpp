// Channels alone: chunks of hashed words from rank to rank, for any number of slots, with a gate
// that holds up the receivers. Every word is checked against what its sender must have put there,
// so a slot that was filled too early or read too late shows.
//
// In step j a block sends chunk j to its peers and receives the chunks j - lag. It can't deadlock
// for 0 <= lag < slots: step j waits for chunks of the steps j - lag, which are sent before a step
// waits to receive, and for slots that are emptied in the steps j - slots + lag < j.
#pragma once
#include "algorithms/blocks/channels/channel.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::conveyor {

using Types = TypeList<std::uint32_t>;

inline constexpr int all_ranks = -1;

struct Args {
  Channels channels;
  std::uint32_t* wrong;       // words; one counter a thread
  std::uint32_t* wraps;       // how often the slots of a channel began anew; one counter a block
  const std::uint32_t* gate;  // how many chunks receivers may take: host memory
  std::uint32_t chunks, lag;
  std::uint32_t call;  // makes its data differ from another call's
  int sender;          // the only one, or all_ranks
};

template <class D>
class Conveyor {
 public:
  PLAIT_DEVICE Conveyor(D& dev, const Args& a)
      : dev_(dev), a_(a), c_(a.channels), channels_(a.channels, dev.block()) {}

  PLAIT_DEVICE void run() {
    for (std::uint32_t j = 0; j < a_.chunks + a_.lag; ++j) {
      if (j < a_.chunks && !send(j)) return;
      if (j >= a_.lag && !receive(j - a_.lag)) return;
    }
    dev_.sync();  // all threads have read the counters
    if (dev_.thread() == 0) {
      for_each_channel([&](unsigned way, int peer) {
        if (sends()) channels_.advance_sent(way, peer, a_.chunks);
        if (sends(peer)) channels_.advance_received(way, peer, a_.chunks);
      });
      a_.wraps[dev_.block()] += wraps_;
    }
    a_.wrong[dev_.block() * dev_.threads() + dev_.thread()] += wrong_;
  }

 private:
  using P = Pack<std::uint32_t, D::pack_bytes>;

  PLAIT_DEVICE bool sends(int rank) const { return a_.sender == all_ranks || a_.sender == rank; }
  PLAIT_DEVICE bool sends() const { return sends(c_.rank); }
  template <class Body>
  PLAIT_DEVICE void for_each_channel(Body body) {
    for (unsigned way = 0; way < Channels::ways; ++way)
      for (int step = 1; step < c_.ranks; ++step) body(way, rank_after(c_.rank, step, c_.ranks));
  }
  /// Word `i` of a chunk.
  PLAIT_DEVICE std::uint32_t word(unsigned way, int from, int to, std::uint32_t k,
                                  std::uint32_t i) const {
    std::uint32_t x = a_.call * 0x9e3779b1u ^ k * 0x85ebca77u ^ i * 0xc2b2ae3du;
    x ^= ((dev_.block() * Channels::ways + way) * 64 + static_cast<unsigned>(from)) * 64 +
         static_cast<unsigned>(to);
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
  }
  PLAIT_DEVICE std::uint32_t packs() const { return c_.slot_bytes / D::pack_bytes; }

  PLAIT_DEVICE bool send(std::uint32_t k) {
    if (!sends()) return true;
    bool ok = true;
    if (dev_.thread() == 0) {
      for_each_channel([&](unsigned way, int peer) {
        const ChannelWait free = channels_.may_send(way, peer, k);
        ok = ok && dev_.wait(free.word, free.at_least, {peer, k});
      });
    }
    if (!dev_.all(ok)) return false;
    for_each_channel([&](unsigned way, int peer) {
      P* const slot = channels_.template outgoing<P>(way, peer, k);
      for (std::uint32_t p = dev_.thread(); p < packs(); p += dev_.threads()) {
        P pack;
        PLAIT_UNROLL
        for (unsigned i = 0; i < P::lanes; ++i)
          pack.lane[i] = word(way, c_.rank, peer, k, p * P::lanes + i);
        dev_.store(slot + p, pack);
      }
    });
    const int next = rank_after(c_.rank, 1, c_.ranks);
    if (k != 0 &&
        channels_.template outgoing<P>(0, next, k) == channels_.template outgoing<P>(0, next, 0))
      ++wraps_;
    dev_.sync();
    if (dev_.thread() == 0) {
      for_each_channel([&](unsigned way, int peer) {
        const ChannelSignal there = channels_.publish(way, peer, k, c_.slot_bytes);
        dev_.signal(there.word, there.value);
      });
    }
    return true;
  }

  PLAIT_DEVICE bool receive(std::uint32_t k) {
    bool ok = true;
    if (dev_.thread() == 0) {
      ok = dev_.wait(a_.gate, k + 1, {c_.rank, k});
      for_each_channel([&](unsigned way, int peer) {
        if (!sends(peer)) return;
        const ChannelWait arrived = channels_.has_arrived(way, peer, k);
        ok = ok && dev_.wait(arrived.word, arrived.at_least, {peer, k});
      });
    }
    if (!dev_.all(ok)) return false;
    for_each_channel([&](unsigned way, int peer) {
      if (!sends(peer)) return;
      const P* const slot = channels_.template incoming<P>(way, peer, k);
      for (std::uint32_t p = dev_.thread(); p < packs(); p += dev_.threads()) {
        const P pack = dev_.load(slot + p);
        PLAIT_UNROLL
        for (unsigned i = 0; i < P::lanes; ++i)
          if (pack.lane[i] != word(way, peer, c_.rank, k, p * P::lanes + i)) ++wrong_;
      }
    });
    dev_.sync();
    if (dev_.thread() == 0) {
      for_each_channel([&](unsigned way, int peer) {
        if (!sends(peer)) return;
        const ChannelSignal used = channels_.consume(way, peer, k);
        dev_.signal(used.word, used.value);
      });
    }
    return true;
  }

  D& dev_;
  const Args& a_;
  const Channels& c_;
  BlockChannels channels_;
  std::uint32_t wrong_ = 0, wraps_ = 0;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Conveyor<D>(dev, a).run();
  }
};

}  // namespace plait::conveyor
