// Kernels as a program would write them, for CPU ranks and GPUs alike.
#pragma once
#include <cstddef>
#include <cstdint>

#include "plait/kernel.hpp"

namespace plait::test {

/// Each block copies its part of the next rank's memory to `to`.
struct Shift {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, PeerView<std::uint32_t> view, std::uint32_t* to,
                               std::size_t count) const {
    here.signal(view.before(), 0);
    if (!here.wait(view.after(), 0)) return;
    const std::uint32_t* const from = view[view.after()];
    const std::size_t packs = count / 4;
    for (std::size_t i = here.index(); i < packs; i += here.stride())
      here.store16(to + 4 * i, here.load16(from + 4 * i));
    for (std::size_t i = 4 * packs + here.index(); i < count; i += here.stride()) to[i] = from[i];
    here.signal(view.after(), 1);  // its memory was read
    if (!here.wait(view.before(), 1)) return;
  }
};

/// In each round each block stores a number into a place of its own at every rank, and takes one
/// from each. Signals go through all slots, several at a time.
struct AllToAll {
  static constexpr unsigned at_once = 3;
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, PeerView<std::uint64_t> view, std::uint64_t* sums,
                               std::uint64_t seed, unsigned rounds) const {
    std::uint64_t sum = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      const unsigned slot = round % Here::slots;
      if (here.thread() == 0)
        for (int peer = 0; peer < here.ranks(); ++peer)
          *place(here, view, peer, here.rank()) = value(seed, round, here.rank(), peer);
      for (int peer = 0; peer < here.ranks(); ++peer) here.signal(peer, slot, at_once);
      for (unsigned i = 0; i < at_once; ++i)
        for (int peer = 0; peer < here.ranks(); ++peer)
          if (!here.wait(peer, slot)) return;
      for (int peer = 0; peer < here.ranks(); ++peer)
        sum = 31 * sum + *place(here, view, here.rank(), peer);
      if (!here.barrier()) return;
    }
    sums[here.index()] = sum;
  }
  PLAIT_DEVICE static std::uint64_t value(std::uint64_t seed, unsigned round, int from, int to) {
    std::uint64_t x = seed + round * 0x9e3779b97f4a7c15u + static_cast<unsigned>(from) * 977u +
                      static_cast<unsigned>(to) * 7919u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 27);
  }
  template <class Here>
  PLAIT_DEVICE static std::uint64_t* place(Here& here, const PeerView<std::uint64_t>& view,
                                           int owner, int writer) {
    return view[owner] + here.block() * static_cast<unsigned>(here.ranks()) +
           static_cast<unsigned>(writer);
  }
};

/// Sums over the blocks of one number and over all of them, of values in memory: of some 64-bit
/// integers, of doubles whose sums round, and of halves of the words as floats.
struct Sums {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, const std::uint64_t* values, std::size_t count,
                               std::uint64_t* of_blocks, double* of_threads,
                               std::uint64_t* total) const {
    std::uint64_t whole[3] = {};
    double rounded[1] = {};
    for (std::size_t i = here.index(); i < count; i += here.stride()) {
      whole[0] += values[i];
      whole[1] += values[i] >> 7;
      whole[2] ^= values[i];
      rounded[0] += static_cast<double>(values[i]) * 1e-3;
    }
    std::uint64_t block[3] = {whole[0], whole[1], whole[2]};
    for (int round = 0; round < 50; ++round) {
      if (!here.sum(block)) return;
      if (!here.sum(rounded)) return;
      rounded[0] *= 0.7;
      if (round == 0 && here.thread() == 0)
        for (int k = 0; k < 3; ++k)
          of_blocks[3 * here.block() + static_cast<unsigned>(k)] = block[k];
    }
    of_threads[here.index()] = rounded[0];
    here.total(whole, total);
  }
};

/// Wrong in one way or the other on rank 1.
struct Wrong {
  enum class Way { no_signal, other_slot, no_such_slot, no_such_rank, no_barrier, no_sum } way;
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, PeerView<std::uint32_t> view) const {
    const bool is_wrong = here.rank() == 1;
    const int next = view.after(), before = view.before();
    double values[2] = {1, 2};
    switch (way) {
      case Way::no_signal:
        if (!is_wrong) here.signal(next, 3);
        static_cast<void>(here.wait(before, 3));
        return;
      case Way::other_slot:
        here.signal(next, is_wrong ? 4 : 3);
        static_cast<void>(here.wait(before, 3));
        return;
      case Way::no_such_slot:
        here.signal(next, Here::slots);
        static_cast<void>(here.wait(before, Here::slots));
        return;
      case Way::no_such_rank:
        here.signal(here.ranks(), 0);
        static_cast<void>(here.wait(-1, 0));
        return;
      case Way::no_barrier:
        if (!is_wrong) here.barrier();
        return;
      case Way::no_sum:
        if (!is_wrong) here.sum(values);
        return;
    }
  }
};

// They are launched in the files of own_kernels/, which GPU builds compile for GPUs.
/// By two files, each with a kernel of its own of one name: they store 1 and 2.
void launch_one(Communicator& comm, std::uint32_t* to);
void launch_two(Communicator& comm, std::uint32_t* to);
void launch_shift(Communicator& comm, StreamRef stream, LaunchShape shape,
                  const PeerView<std::uint32_t>& view, std::uint32_t* to, std::size_t count);
void launch_all_to_all(Communicator& comm, StreamRef stream, LaunchShape shape,
                       const PeerView<std::uint64_t>& view, std::uint64_t* sums, std::uint64_t seed,
                       unsigned rounds);
void launch_sums(Communicator& comm, StreamRef stream, LaunchShape shape,
                 const std::uint64_t* values, std::size_t count, std::uint64_t* of_blocks,
                 double* of_threads, std::uint64_t* total);
void launch_wrong(Communicator& comm, StreamRef stream, LaunchShape shape, Wrong::Way way,
                  const PeerView<std::uint32_t>& view);

}  // namespace plait::test
