// How the packs of an item come to a block's staging memory: each thread copies its own, or a team
// of threads has the bulk copy engine fetch the packs of all of them at once. The kernel is the
// same for both.
//
// A stage is `Width` packs for each thread of the block. Of the block's packs in a stage, a team's
// lie side by side, and its threads take them in turn. Where threads copy for themselves, the team
// is the whole block.
#pragma once
#include "backends/device/device.hpp"

namespace plait::flash {

/// Which packs of a stage a thread has: base + lane, base + lane + stride, ...
struct Deal {
  unsigned base;    // the team's first pack
  unsigned lane;    // in the team
  unsigned stride;  // the team's threads

  PLAIT_DEVICE static constexpr Deal among_teams(unsigned thread, unsigned team, unsigned width) {
    return {thread / team * team * width, thread % team, team};
  }
};

/// Every thread copies the packs that it will use, pack by pack. Groups of copies complete in
/// order.
struct OwnCopies {
  template <class D>
  static constexpr bool served = true;

  template <class D, class P, int Depth, int Width>
  class Stages {
   public:
    PLAIT_DEVICE static Deal deal(const D& dev) { return {dev.thread(), 0, dev.threads()}; }

    /// Starts the copies of a stage whose first pack is `from`, and which ends after `left` packs
    /// at the latest.
    template <int Slot>
    PLAIT_DEVICE void copy(const P* from, std::size_t left, unsigned stride) {
      PLAIT_UNROLL
      for (int u = 0; u < Width; ++u) {
        const std::size_t offset = static_cast<unsigned>(u) * stride;
        if (offset < left) staging_.copy_async(Slot * Width + u, from + offset);
      }
    }
    /// After every start, also if there was no stage left to copy: a group of copies is closed,
    /// perhaps an empty one.
    PLAIT_DEVICE void commit() { staging_.commit(); }
    /// Until the stage in the slot is there. Depth - 1 groups were closed after its own.
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

/// A team's packs come in one copy, where the target has such.
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
