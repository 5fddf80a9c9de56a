// How the packs of an item come to a block's staging memory. Either each thread copies its own
// packs, or the bulk copy engine fetches the packs of a whole team of threads at once. The kernel
// is the same for both.
//
// A stage has `Width` packs for each thread of the block. A team's packs of a stage lie side by
// side, and its threads take them in turn. Where threads copy for themselves, the team is the whole
// block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/device.hpp"

namespace plait::flash {

/// A thread's packs of a stage: base + lane, base + lane + stride, ...
struct Deal {
  unsigned base;    // the team's first pack
  unsigned lane;    // in the team
  unsigned stride;  // the team's threads

  PLAIT_DEVICE static constexpr Deal among_teams(unsigned thread, unsigned team, unsigned width) {
    return {thread / team * team * width, thread % team, team};
  }
};

/// Every thread copies the packs that it will use, one by one. Groups of copies complete in order.
struct OwnCopies {
  template <class D>
  static constexpr bool served = true;

  template <class D, class P, int Depth, int Width>
  class Stages {
   public:
    PLAIT_DEVICE static Deal deal(const D& dev) { return {dev.thread(), 0, dev.threads()}; }

    /// Starts the copies of a stage, whose first pack is `from` and which has at most `left` packs.
    template <int Slot>
    PLAIT_DEVICE void copy(const P* from, std::size_t left, unsigned stride) {
      PLAIT_UNROLL
      for (int u = 0; u < Width; ++u) {
        const std::size_t offset = static_cast<unsigned>(u) * stride;
        if (offset < left) staging_.copy_async(Slot * Width + u, from + offset);
      }
    }
    /// Closes a group of copies, perhaps an empty one. Called after every start, even if no stage
    /// was left to copy.
    PLAIT_DEVICE void commit() { staging_.commit(); }
    /// Waits for the stage in the slot. Depth - 1 groups were closed after its own.
    template <int Slot>
    PLAIT_DEVICE void wait() {
      staging_.template wait_pending<Depth - 1>();
    }
    template <int Slot>
    PLAIT_DEVICE P load(int u) const {
      return staging_.load(Slot * Width + u);
    }

   private:
    Staging<D, P, Depth * Width> staging_;
  };
};

/// One copy fetches a team's packs, on targets with such copies.
struct BulkCopies {
  template <class D>
  static constexpr bool served = D::bulk_threads != 0;

  template <class D, class P, int Depth, int Width>
  class Stages {
   public:
    PLAIT_DEVICE static Deal deal(const D& dev) {
      return Deal::among_teams(dev.thread(), team, Width);
    }

    template <int Slot>
    PLAIT_DEVICE void copy(const P* from, std::size_t left, unsigned) {
      staging_.copy(Slot, from, left < team * Width ? static_cast<unsigned>(left) : team * Width);
    }
    PLAIT_DEVICE void commit() {}
    template <int Slot>
    PLAIT_DEVICE void wait() {
      staging_.wait(Slot);
    }
    template <int Slot>
    PLAIT_DEVICE P load(int u) const {
      return staging_.load(Slot, u);
    }

   private:
    static constexpr unsigned team = D::bulk_threads;
    BulkStaging<D, P, Depth, Width> staging_;
  };
};

}  // namespace plait::flash
