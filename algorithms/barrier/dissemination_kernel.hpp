// Barrier between ranks of several nodes, through channels: one block of one thread.
//
// Round i, with distance 2^i, for all distances below the number of ranks n:
//   1. Send an empty chunk to the rank `distance` places after this one.
//   2. Receive one from the rank as far before.
//
// After round i a rank has heard, directly or through others, of 2^(i+1) - 1 ranks before it. So
// after the last round it has heard of all.
//
// Every distance has its own peers, so a channel carries one chunk per call
// (algorithms/blocks/channels/channel.hpp proves that no other handshake is needed).
//
// Why it can't deadlock. A rank receives in round i what its peer sends at the beginning of its
// round i, and a send waits only for chunks of earlier calls. So of all ranks, one in the least
// round can go on.
//
// Cost: log2(n) hops, rounded up.
// Resources: way 0 of the channels.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::dissemination {

using Types = TypeList<std::uint8_t>;  // it moves no data

struct Args {
  Channels channels;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    constexpr unsigned way = 0;
    const int rank = a.channels.rank, ranks = a.channels.ranks;
    const BlockChannels channels(a.channels, dev.block());
    // Uniform: with a branch of each thread, the compiler for AMD makes ways without an acquire.
    const auto wait = [&](const ChannelWait& w, int peer, std::uint32_t round) {
      return dev.uniform(dev.wait(w.word, w.at_least, {peer, round}) ? 1u : 0u) != 0;
    };
    const auto signal = [&](const ChannelSignal& s) { dev.signal(s.word, s.value); };
    std::uint32_t round = 0;
    for (int distance = 1; distance < ranks; distance *= 2, ++round) {
      const int after = rank_after(rank, distance, ranks),
                before = rank_after(rank, ranks - distance, ranks);
      if (!wait(channels.may_send(way, after, 0), after, round)) return;
      signal(channels.publish(way, after, 0, 0));
      if (!wait(channels.has_arrived(way, before, 0), before, round)) return;
      signal(channels.consume(way, before, 0));
      channels.advance_sent(way, after, 1);
      channels.advance_received(way, before, 1);
    }
  }
};

}  // namespace plait::dissemination
