// The words of backends/device/device.hpp on GPUs. `Isa` (cuda/ptx.hpp, hip/gcn.hpp) has the parts
// that depend on the instruction set. Its atomic accesses are at system scope. "As a word" refers
// to the word of that name in device.hpp.
//
//   begin()                     comes first in a kernel
//   nanoseconds()               a clock that runs evenly
//   count, load_relaxed, store_relaxed
//                               as backends/device/block_log.hpp needs them, on 8-byte words
//   load(pack), store(pack, value)
//                               8 or 16 bytes of global memory, one instruction each
//   load_relaxed(word)          4 bytes
//   store_release(word, value)  a thread that sees the value sees everything written before it
//   poll(word), acquire()       a load; `acquire` after the load that saw the awaited value makes
//                               the pair an acquire
//   store_packet, load_packet   two 8-byte words, each single-copy atomic
//   release(), arrive(word)     as words
//   acquire(word)               as word, for 8 bytes of the slot
//   Staging<P, count>           a thread's places for asynchronous copies
//   staging_is_shared           they lie in the dynamic shared memory of the launch
//   indexed_arguments, to_global(pointer), uniform(value)
//                               as words
//   line_threads, line_group    as words
//   store_share, load_share     with lines: access a thread's 16 bytes if its flag says so, in one
//                               instruction for all threads that have been together since the last
//                               any_of_group
//   any_of_group(flag)          with lines: a vote and barrier of the group
//   of_lane_apart(value, apart) the value of the thread whose number in the wave differs by this
//                               power of two, up to 16
//   sync(), all(flag)           of the block; after one of them, a release by one thread covers
//                               everything that the block's threads wrote
//   pause(polls)                within a spin, after so many polls
#pragma once
#include <cstdint>

#include "backends/device/device.hpp"

namespace plait::gpu {

/// Decides when to give up a spin that has lasted for some tens of microseconds.
template <class Isa>
class Patience {
 public:
  PLAIT_WORD explicit Patience(const Watch& watch) : watch_(watch) {}

  /// True when it is time to give up; the first call starts the clock.
  ///
  /// The word that says whether others have given up lies in memory that all threads of the launch
  /// would read at once. If 32768 threads look every ten microseconds, they delay each other by a
  /// millisecond (2 H200, batches of 64 messages of 16 KB: 1650 us instead of 30 where one rank was
  /// late). So the threads take turns: three looks per microsecond over all threads that a launch
  /// may have, however many it really has. The size of the launch would be a load on AMD GPUs, and
  /// a spin should not contain one.
  PLAIT_WORD PLAIT_COLD bool over(unsigned block, Waiting who, std::uint32_t expected,
                                  std::uint32_t seen) {
    constexpr unsigned max_threads_per_block = 512, turns = 128 * max_threads_per_block;
    constexpr std::uint64_t first_look_ns = 10'000, turn_ns = 300;
    const std::uint64_t now = Isa::nanoseconds();
    if (start_ == 0) {
      start_ = now;
      next_look_ =
          now + first_look_ns + (block * max_threads_per_block + threadIdx.x) % turns * turn_ns;
    }
    const bool expired = watch_.timeout_ns != 0 && now - start_ > watch_.timeout_ns;
    if (!expired && now < next_look_) return false;
    next_look_ = now + turns * turn_ns;
    const bool aborted = Isa::load_relaxed(watch_.abort) != 0;
    if (expired || aborted) report(expired ? out_of_time : told_to, block, who, expected, seen);
    return expired || aborted || Isa::load_relaxed(watch_.claimed) != 0;
  }

 private:
  /// Claims the record. The claim also stops the later calls from sending anything.
  PLAIT_WORD void report(GaveUp why, unsigned block, Waiting who, std::uint32_t expected,
                         std::uint32_t seen) {
    if (atomicCAS(watch_.claimed, 0u, 1u) != 0u) return;
    describe(*watch_.record, watch_, block, who, expected, seen);
    Isa::store_release(&watch_.record->state, why);
  }

  const Watch& watch_;
  std::uint64_t start_ = 0, next_look_ = 0;
};

template <class Isa>
class KernelWords {
 public:
  static constexpr std::size_t pack_bytes = 16;
  static constexpr bool indexed_arguments = Isa::indexed_arguments, has_peer_reads = false,
                        threads_as_launched = true;
  static constexpr int line_threads = Isa::line_threads, line_group = Isa::line_group;

  /// Asks whether an earlier call has given up: then this call must send nothing, because its peers
  /// would take it for data of that call. The load is in flight while the kernel loads its epoch,
  /// so it costs no time.
  PLAIT_WORD explicit KernelWords(const Watch& watch)
      : watch_(watch), broken_(watch.claimed == nullptr ? 0 : Isa::load_relaxed(watch.claimed)) {}

  PLAIT_WORD unsigned block() const { return blockIdx.x; }
  PLAIT_WORD unsigned blocks() const { return gridDim.x; }
  PLAIT_WORD unsigned thread() const { return threadIdx.x; }
  PLAIT_WORD unsigned threads() const { return blockDim.x; }

  PLAIT_WORD void sync() { Isa::sync(); }
  PLAIT_WORD bool all(bool flag) { return Isa::all(flag); }

  PLAIT_WORD std::byte* block_memory() {
    alignas(16) __shared__ std::byte memory[block_memory_bytes];
    return memory;
  }
  PLAIT_WORD std::uint32_t arrive(std::uint32_t* word) { return Isa::arrive(word); }

  /// The places take turns, so that one barrier is enough: when a thread has passed the next one,
  /// all have read these.
  template <int Parts, class Of, class Op>
  PLAIT_WORD float reduce(unsigned part_packs, unsigned packs, Of of, Op op, float none) {
    __shared__ float places[2][2 * row_group];
    float* const of_groups = places[reductions_++ % 2];
    PLAIT_UNROLL
    for (unsigned part = 0; part < unsigned{Parts}; ++part) {
      const float all = butterfly(of(part, threadIdx.x), op);
      if (threadIdx.x % row_group == 0)
        of_groups[(part * part_packs + threadIdx.x) / row_group] = all;
    }
    Isa::sync();
    const unsigned groups = (packs + row_group - 1) / row_group, mine = threadIdx.x % row_group;
    const float first = butterfly(mine < groups ? of_groups[mine] : none, op);
    if (groups <= row_group) return first;
    return op(first, butterfly(mine + row_group < groups ? of_groups[mine + row_group] : none, op));
  }
  template <int Parts, int Width>
  class RowValues {
   public:
    PLAIT_WORD explicit RowValues(KernelWords&) {}
    PLAIT_WORD float (&at(unsigned part, std::size_t))[Width] { return values_[part]; }

   private:
    float values_[Parts][Width];
  };

  template <class T, std::size_t Bytes>
  PLAIT_WORD Pack<T, Bytes> load(const Pack<T, Bytes>* p) const {
    return Isa::load(p);
  }
  template <class T, std::size_t Bytes>
  PLAIT_WORD void store(Pack<T, Bytes>* p, const Pack<T, Bytes>& value) const {
    Isa::store(p, value);
  }

  template <class T>
  PLAIT_WORD T* to_global(T* pointer) const {
    return Isa::to_global(pointer);
  }

  template <class T>
  PLAIT_WORD T uniform(const T& value) const {
    return Isa::uniform(value);
  }

  template <class P, int Count>
  using Staging = typename Isa::template Staging<P, Count>;

  PLAIT_WORD void signal(std::uint32_t* slot, std::uint32_t value) {
    if (broken_ == 0) Isa::store_release(slot, value);
  }

  PLAIT_WORD bool wait(const std::uint32_t* slot, std::uint32_t at_least, Waiting who) {
    std::uint32_t seen = 0;
    const bool reached = spin(
        [&] {
          seen = Isa::poll(slot);
          return static_cast<std::int32_t>(seen - at_least) >= 0;
        },
        [&] {
          return Late{who, at_least, seen};
        });
    Isa::acquire();
    return reached;
  }

  PLAIT_WORD void put(Packet* packet, PacketData data, std::uint32_t flag) {
    if (broken_ != 0) return;
    Isa::store_packet(packet, data.word[0] | (std::uint64_t{flag} << 32),
                      data.word[1] | (std::uint64_t{flag} << 32));
  }

  template <int Max>
  PLAIT_WORD bool get(const Packet* const (&packets)[Max], PacketData (&data)[Max], unsigned wanted,
                      std::uint32_t flag, const Waiting (&who)[Max]) {
    std::uint64_t low[Max] = {}, high[Max] = {};
    const auto is_there = [&](int i) {
      return (wanted >> i & 1u) == 0 || (static_cast<std::uint32_t>(low[i] >> 32) == flag &&
                                         static_cast<std::uint32_t>(high[i] >> 32) == flag);
    };
    const bool came = spin(
        [&] {
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            if ((wanted >> i & 1u) != 0) Isa::load_packet(packets[i], low[i], high[i]);
          bool complete = true;
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i) complete = complete && is_there(i);
          return complete;
        },
        [&] {
          Late late{who[0], flag, 0};
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            if (!is_there(i)) {
              const auto of_low = static_cast<std::uint32_t>(low[i] >> 32);
              late = {who[i], flag,
                      of_low == flag ? static_cast<std::uint32_t>(high[i] >> 32) : of_low};
            }
          return late;
        });
    PLAIT_UNROLL
    for (int i = 0; i < Max; ++i)
      data[i] = {{static_cast<std::uint32_t>(low[i]), static_cast<std::uint32_t>(high[i])}};
    return came;
  }

  PLAIT_WORD void put(Marked* slot, const Marked& data) {
    if (broken_ == 0) Isa::store_packet(as_packet(slot), data.word[0], data.word[1]);
  }

  /// `step`: for the diagnostic record.
  template <int Max>
  PLAIT_WORD bool take(const Marked* const (&slots)[Max], Marked (&data)[Max], unsigned wanted,
                       std::uint32_t step, const Waiting (&who)[Max]) {
    Waiting missing = who[0];
    const std::uint32_t seen = step - 1;
    return spin(
        [&] {
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            if ((wanted >> i & 1u) != 0)
              Isa::load_packet(as_packet(slots[i]), data[i].word[0], data[i].word[1]);
          bool complete = true;
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            if ((wanted >> i & 1u) != 0 && (data[i].word[0] == 0 || data[i].word[1] == 0)) {
              complete = false;
              missing = who[i];
            }
          return complete;
        },
        [&] {
          return Late{missing, step, seen};
        });
  }

  PLAIT_WORD void empty(Marked* slot) { Isa::store_packet(as_packet(slot), 0, 0); }
  PLAIT_WORD void release() { Isa::release(); }
  PLAIT_WORD void acquire(const Marked* slot) {
    for (const std::uint64_t& word : slot->word) Isa::acquire(&word);
  }

  /// The flag of a line is the upper half of its last word. Between a vote and the access that it
  /// prepares there are only branches that the whole group takes. The group votes on whether the
  /// call is broken, because each thread has loaded that by itself and a line that only some of its
  /// threads had stored would count as complete.
  PLAIT_WORD void put(Line* line, const LineShare<2>& share, std::uint32_t flag, bool live) {
    if (Isa::any_of_group(broken_ != 0)) return;
    Isa::store_share(share_of(line), bits_as<std::uint64_t>(share.word[0]),
                     has_flag() ? std::uint64_t{flag} << 32 : bits_as<std::uint64_t>(share.word[1]),
                     live);
  }

  template <int Max>
  PLAIT_WORD bool get(const Line* const (&lines)[Max], LineShare<2> (&shares)[Max], unsigned wanted,
                      std::uint32_t flag, const Waiting (&who)[Max]) {
    std::uint32_t seen = 0;
    Waiting missing = who[0];
    // A single line is loaded before it is known whether the call is broken (2 H200, send_recv of
    // 16 KB: 3.03 us, otherwise 3.25; 2026-11-23).
    constexpr bool asks_late = Max == 1;
    if constexpr (!asks_late) {
      if (Isa::any_of_group(broken_ != 0)) return false;
    }
    return spin<asks_late>(
        [&] {
          std::uint64_t low[Max], high[Max];
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            Isa::load_share(share_of(lines[i]), low[i], high[i], (wanted >> i & 1u) != 0);
          bool complete = !asks_late || broken_ == 0;
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i) {
            shares[i] = {{bits_as<PacketData>(low[i]), bits_as<PacketData>(high[i])}};
            const auto found = static_cast<std::uint32_t>(high[i] >> 32);
            if ((wanted >> i & 1u) == 0 || !has_flag() || found == flag) continue;
            complete = false;
            seen = found;
            missing = who[i];
          }
          return !Isa::any_of_group(!complete);
        },
        [&] {
          return Late{missing, flag, seen};
        },
        [](bool over) { return Isa::any_of_group(over); });
  }

 private:
  /// All lanes of a group get the same bits, because operations commute.
  template <class Op>
  PLAIT_WORD static float butterfly(float value, Op op) {
    PLAIT_UNROLL
    for (unsigned apart = row_group / 2; apart > 0; apart /= 2)
      value = op(value, Isa::of_lane_apart(value, apart));
    return value;
  }
  struct Alone {
    PLAIT_WORD bool operator()(bool over) const { return over; }
  };
  struct Late {
    Waiting who;
    std::uint32_t expected, seen;
  };

  /// Polls for about forty microseconds, then asks `Patience` between polls, and tells it
  /// what is `missing()`. `agree` makes threads that spin together give up together.
  /// `AsksLate`: `ready` returns false if the call is broken.
  template <bool AsksLate = false, class Ready, class Missing, class Agree = Alone>
  PLAIT_WORD bool spin(Ready ready, Missing missing, Agree agree = {}) {
    if constexpr (!AsksLate) {
      if (broken_ != 0) return false;
    }
    constexpr unsigned hurried = 64;
    Patience<Isa> patience(watch_);
    PLAIT_NO_UNROLL
    for (unsigned polls = 1;; ++polls) {
      if (ready()) return true;
      if constexpr (AsksLate) {
        if (agree(broken_ != 0)) return false;
      }
      if (polls < hurried) {
        Isa::pause(polls);  // a branch that joins this one again took a flag 8 ns (2 H200)
        continue;
      }
      Isa::pause(polls);
      if (polls % 8 == 0) {
        const Late late = missing();
        if (agree(patience.over(blockIdx.x, late.who, late.expected, late.seen))) return false;
      }
    }
  }

  template <class M>
  PLAIT_WORD static auto as_packet(M* slot) {
    return reinterpret_cast<std::conditional_t<std::is_const_v<M>, const Packet, Packet>*>(slot);
  }

  /// This thread's 16 bytes of a line.
  template <class L>
  PLAIT_WORD static auto share_of(L* line) {
    using Half = std::conditional_t<std::is_const_v<L>, const Packet, Packet>;
    return reinterpret_cast<Half*>(line) + threadIdx.x % line_threads;
  }
  PLAIT_WORD static bool has_flag() { return threadIdx.x % line_threads == line_threads - 1; }

  const Watch& watch_;
  std::uint32_t broken_;
  unsigned reductions_ = 0;
};

}  // namespace plait::gpu
