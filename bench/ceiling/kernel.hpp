// What a link gives a kernel: the copies and the flags whose times plait-bench sets beside those of
// collectives.
//
//   copy: every block copies its part of a buffer, with the loop of the library's own algorithms.
//         A copy into a peer's window is a push, one out of it a pull.
//   flag: a thread and its peer signal each other in turn. Each has a word in its own window, which
//         the other writes. A round is two flags, one in each direction. Without `waits` it is one
//         flag, and nobody waits for it: what a kernel pays to publish a slot.
//
// A launch does one of the two, with no elements or no rounds for the other. The copy stands first,
// without a branch around it: so no way through the code leads from a flag to a load of data, which
// would have to be ordered behind it.
#pragma once
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::ceiling {

using Types = TypeList<float>;

struct Args {
  const void* from = nullptr;  // copy: `count` elements, aligned; 0: none
  void* to = nullptr;
  std::size_t count = 0;
  const std::uint32_t* own = nullptr;  // flag: the word that the peer writes
  std::uint32_t* others = nullptr;     // flag: the peer's word
  std::uint32_t first = 0;             // flag: value of both words before the first round
  std::uint32_t rounds = 0;            // 0: no flags
  int peer = 0;
  bool begins = false;  // flag: signals first
  bool waits = true;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    copy(dev, a);
    if (dev.block() == 0 && dev.thread() == 0) exchange_flags(dev, a);
  }

 private:
  template <Device D>
  PLAIT_DEVICE static void copy(D& dev, const Args& a) {
    const Packs<const T, D::pack_bytes> from(static_cast<const T*>(a.from), a.count);
    const Packs<T, D::pack_bytes> to(static_cast<T*>(a.to), a.count);
    copy_packs<packs_in_flight<T, D>>(dev, from, to,
                                      Partition::of(from.size(), dev.blocks()).at(dev.block()));
  }

  template <Device D>
  PLAIT_DEVICE static void exchange_flags(D& dev, const Args& a) {
    for (std::uint32_t round = 1; round <= a.rounds; ++round) {
      const std::uint32_t value = a.first + round;
      if (a.waits && !a.begins && !dev.wait(a.own, value, {a.peer, round})) return;
      dev.signal(a.others, value);
      if (a.waits && a.begins && !dev.wait(a.own, value, {a.peer, round})) return;
    }
  }
};

}  // namespace plait::ceiling
