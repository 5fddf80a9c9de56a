// One-sided calls: a rank moves bytes into or out of a peer's window, or signals, and the peer
// makes no call for that. A peer that wants to know awaits the signal.
//
//   put     1. each block stores its stripe into the peer's window; 2. the block signals, if it is
//           the only one, else a kernel behind this one does;
//   get     each block loads its stripe out of the peer's window, or reads it by a system call;
//   signal  the block signals;
//   await   the block waits until so many more signals of the peer have come.
//
// Why no barrier is missing. A signal is a release. What the block itself stored is ordered before
// it by `sync`; what other blocks stored, by the end of their kernel. Each word counts the signals
// of one writer, which keeps the count in private memory, and so does the reader with what it has
// awaited. Calls of a communicator run one after the other, so both have one user at a time. The
// counts wrap together: `wait` compares by a signed difference, so 2^31 - 1 signals may be waiting.
// After an await, kernels behind it in the stream see what the peer wrote before the signal,
// because the wait is an acquire and they begin after it.
//
// Cost: each byte crosses the link once. An await, one hop. Resources: a signal word and two
// counters per peer.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"

namespace plait::one_sided {

using Types = MoveTypes;

struct Args {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;           // 0: nothing moves
  Partition stripes;           // of the bytes, one per block
  std::int32_t reader_handle;  // -1: `from` is mapped
  std::uint32_t awaited;       // signals; 0: none
  bool signals;
  WindowView words;            // [writer], in the memory of the rank that awaits
  std::uint32_t *sent, *seen;  // [peer]
  int rank, peer;
};

template <class T, class D>
class OneSided {
 public:
  PLAIT_DEVICE OneSided(D& dev, const Args& a) : dev_(dev), a_(a) {}

  PLAIT_DEVICE void run() {
    if (a_.bytes != 0 && !move()) return;
    if (a_.signals) {
      dev_.sync();  // all threads have stored
      if (dev_.thread() == 0) dev_.signal(word(a_.peer, a_.rank), ++a_.sent[a_.peer]);
    }
    if (a_.awaited != 0 && dev_.thread() == 0) {
      const std::uint32_t last = a_.seen[a_.peer] += a_.awaited;
      dev_.wait(word(a_.rank, a_.peer), last, {a_.peer, last});
    }
  }

 private:
  PLAIT_DEVICE bool move() {
    const Range stripe = a_.stripes.at(dev_.block());
    if constexpr (D::has_peer_reads) {
      if (a_.reader_handle >= 0)
        return dev_.thread() != 0 ||
               dev_.read_peer(a_.reader_handle, a_.to + stripe.begin, a_.from + stripe.begin,
                              stripe.size(), {a_.peer, 0});
    }
    const std::size_t count = a_.bytes / sizeof(T);
    copy_packs<D::pack_bytes >= 64 ? 1 : 8>(
        dev_, Packs<const T, D::pack_bytes>(reinterpret_cast<const T*>(a_.from), count),
        Packs<T, D::pack_bytes>(reinterpret_cast<T*>(a_.to), count),
        in_packs<D::pack_bytes>(stripe));
    return true;
  }
  PLAIT_DEVICE std::uint32_t* word(int owner, int writer) const {
    return reinterpret_cast<std::uint32_t*>(a_.words.peer_ptr(owner)) + writer;
  }

  D& dev_;
  const Args& a_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    OneSided<T, D>(dev, a).run();
  }
};

}  // namespace plait::one_sided
