// A barrier between block b of every rank.
#pragma once
#include <cstdint>

#include "backends/device/device.hpp"

namespace plait {

/// Words of signal memory the barrier needs.
constexpr std::size_t block_barrier_signals(unsigned max_blocks, int ranks) {
  return std::size_t{max_blocks} * static_cast<std::size_t>(ranks);
}

/// No block b leaves before block b of every rank has entered. Everything that their threads wrote
/// before is then visible to all of their threads. The layout of `signals` is [block][writer];
/// `epoch` grows by one at every use of a block. False: a peer never came.
///
/// Each word has one writer and only grows, so a peer that is one barrier ahead does no harm:
/// `wait` accepts any value from `epoch` on. A peer can't be two barriers ahead, because for that
/// it needs this rank's signal for the one between.
template <Device D>
PLAIT_DEVICE bool block_barrier(D& dev, const WindowView& signals, int rank, int ranks,
                                std::uint32_t epoch) {
  const auto slot = [&](int owner, int writer) {
    return reinterpret_cast<std::uint32_t*>(signals.peer_ptr(owner)) +
           std::size_t{dev.block()} * static_cast<unsigned>(ranks) + static_cast<unsigned>(writer);
  };
  dev.sync();  // the block's earlier writes come before the signals below
  const int first = static_cast<int>(dev.thread()), threads = static_cast<int>(dev.threads());
  for (int peer = first; peer < ranks; peer += threads)
    if (peer != rank) dev.signal(slot(peer, rank), epoch);
  bool arrived = true;
  for (int peer = first; peer < ranks && arrived; peer += threads)
    if (peer != rank) arrived = dev.wait(slot(rank, peer), epoch, {peer, epoch});
  return dev.all(arrived);
}

}  // namespace plait
