// The words of backends/device/device.hpp on the host target: a block is one thread or a team of
// several, and processes share memory.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "backends/device/device.hpp"
#include "backends/host/host_team.hpp"

#ifdef PLAIT_HOST_JITTER
#include "backends/host/jitter.hpp"
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plait::host {

class KernelWords {
 public:
  /// A cache line; the branch on the operation is taken once per pack.
  static constexpr std::size_t pack_bytes = 64;
  static constexpr bool indexed_arguments = true, has_peer_reads = true,
                        threads_as_launched = false;
  static constexpr int line_threads = 1, line_group = 1;

  KernelWords(unsigned block, unsigned blocks, unsigned thread, Team& team, const Watch& watch,
              std::byte* buffer = nullptr)
      : block_(block),
        blocks_(blocks),
        thread_(thread),
        team_(team),
        watch_(watch),
        buffer_(buffer) {}

  /// Memory of the block's first thread for a kernel, aligned like a pack. Kernels run on threads
  /// of the program, too, whose stacks may be small.
  static constexpr std::size_t buffer_bytes = std::size_t{64} << 10;
  std::byte* buffer() const { return thread_ == 0 ? buffer_ : nullptr; }
  const Watch& watch() const { return watch_; }
  /// Behind it.
  std::byte* block_memory() const { return buffer_ + buffer_bytes; }

  unsigned block() const { return block_; }
  unsigned blocks() const { return blocks_; }
  unsigned thread() const { return thread_; }
  unsigned threads() const { return team_.threads(); }

  void sync() {
    if (threads() > 1) team_.sync(of_team());
  }
  bool all(bool flag) {
    return threads() == 1 ? flag : team_.all(flag, thread_, vote_++, of_team());
  }

  template <int Parts, class Of, class Op>
  float reduce(unsigned part_packs, unsigned packs, Of of, Op op, float none) {
    auto* const all = reinterpret_cast<float*>(block_memory());
    sync();  // nobody uses the memory any more
    for (unsigned part = 0; part < unsigned{Parts}; ++part)
      for (unsigned place = thread_; place < part_packs; place += threads())
        if (part * part_packs + place < packs) all[part * part_packs + place] = of(part, place);
    sync();
    float groups[2 * row_group];
    std::fill(std::begin(groups), std::end(groups), none);
    for (unsigned first = 0; first < packs; first += row_group) {
      float group[row_group];
      std::fill(std::begin(group), std::end(group), none);
      std::copy_n(all + first, std::min(row_group, packs - first), group);
      groups[first / row_group] = tree(group, op);
    }
    const float first = tree(groups, op);
    return packs <= row_group * row_group ? first : op(first, tree(groups + row_group, op));
  }
  /// In the block's buffer.
  template <int Parts, int Width>
  class RowValues {
   public:
    explicit RowValues(KernelWords& words) : values_(reinterpret_cast<float*>(words.buffer_)) {}
    float (&at(unsigned, std::size_t column))[Width] {
      return *reinterpret_cast<float(*)[Width]>(values_ + column);
    }

   private:
    float* values_;
  };

  template <class T, std::size_t Bytes>
  Pack<T, Bytes> load(const Pack<T, Bytes>* p) const {
    return *p;
  }
  template <class T, std::size_t Bytes>
  void store(Pack<T, Bytes>* p, const Pack<T, Bytes>& value) const {
    *p = value;
  }

  template <class T>
  T* to_global(T* pointer) const {
    return pointer;
  }

  template <class T>
  T uniform(const T& value) const {
    return value;
  }

  /// A copy is complete when `copy_async` returns.
  template <class P, int Count>
  class Staging {
   public:
    void copy_async(int place, const P* from) { packs_[place] = *from; }
    void commit() {}
    template <int Pending>
    void wait_pending() {}
    P load(int place) const { return packs_[place]; }

   private:
    P packs_[Count] = {};
  };

  void signal(std::uint32_t* slot, std::uint32_t value) {
    jitter();
    std::atomic_ref(*slot).store(value, std::memory_order_release);
  }

  bool wait(const std::uint32_t* slot, std::uint32_t at_least, Waiting who) {
    jitter();
    std::atomic_ref flag(*const_cast<std::uint32_t*>(slot));  // C++26 has atomic_ref<const T>
    std::uint32_t seen = 0;
    return spin(
        [&] {
          seen = flag.load(std::memory_order_acquire);
          return static_cast<std::int32_t>(seen - at_least) >= 0;
        },
        who, at_least, seen);
  }

  void put(Packet* packet, PacketData data, std::uint32_t flag) {
    jitter();
    half(packet, 0).store(combine(data.word[0], flag), std::memory_order_relaxed);
    half(packet, 1).store(combine(data.word[1], flag), std::memory_order_relaxed);
  }

  template <int Max>
  bool get(const Packet* const (&packets)[Max], PacketData (&data)[Max], unsigned wanted,
           std::uint32_t flag, const Waiting (&who)[Max]) {
    for (int i = 0; i < Max; ++i) {
      if ((wanted >> i & 1u) == 0) continue;
      std::uint32_t seen = 0;
      const auto arrived = [&](int h) {
        const std::uint64_t word =
            half(const_cast<Packet*>(packets[i]), h).load(std::memory_order_relaxed);
        data[i].word[h] = static_cast<std::uint32_t>(word);
        seen = static_cast<std::uint32_t>(word >> 32);
        return seen == flag;
      };
      if (!spin([&] { return arrived(0) && arrived(1); }, who[i], flag, seen)) return false;
    }
    return true;
  }

  void put(Marked* slot, const Marked& data) {
    jitter();
    for (int i = 0; i < 2; ++i)
      std::atomic_ref(slot->word[i]).store(data.word[i], std::memory_order_relaxed);
  }

  template <int Max>
  bool take(const Marked* const (&slots)[Max], Marked (&data)[Max], unsigned wanted,
            std::uint32_t step, const Waiting (&who)[Max]) {
    const std::uint32_t seen = step - 1;
    for (int i = 0; i < Max; ++i) {
      if ((wanted >> i & 1u) == 0) continue;
      const auto arrived = [&](int half) {
        std::atomic_ref word(const_cast<std::uint64_t&>(slots[i]->word[half]));
        return (data[i].word[half] = word.load(std::memory_order_relaxed)) != 0;
      };
      if (!spin([&] { return arrived(0) && arrived(1); }, who[i], step, seen)) return false;
    }
    return true;
  }

  void empty(Marked* slot) { put(slot, Marked{}); }
  static std::uint32_t arrive(std::uint32_t* word) {
    jitter();
    return std::atomic_ref(*word).fetch_add(1, std::memory_order_acq_rel);
  }
  void release() { fence(std::memory_order_release); }
  void acquire(const Marked*) { fence(std::memory_order_acquire); }

  void put(Line* line, const LineShare<16>& share, std::uint32_t flag, bool live) {
    if (!live) return;
    jitter();
    std::memcpy(line->word, share.word, 15 * sizeof(PacketData));
    std::atomic_ref(line->word[15]).store(combine(0, flag), std::memory_order_release);
  }

  template <int Max>
  bool get(const Line* const (&lines)[Max], LineShare<16> (&shares)[Max], unsigned wanted,
           std::uint32_t flag, const Waiting (&who)[Max]) {
    for (int i = 0; i < Max; ++i) {
      if ((wanted >> i & 1u) == 0) continue;
      std::uint32_t seen = 0;
      std::atomic_ref last(const_cast<std::uint64_t&>(lines[i]->word[15]));
      const auto arrived = [&] {
        seen = static_cast<std::uint32_t>(last.load(std::memory_order_acquire) >> 32);
        return seen == flag;
      };
      if (!spin(arrived, who[i], flag, seen)) return false;
      std::memcpy(shares[i].word, lines[i]->word, 15 * sizeof(PacketData));
    }
    return true;
  }

  static void copy_bytes(void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }

  bool enter(std::uint32_t* gate, Waiting who) {
    jitter();
    std::uint32_t seen = gate_open;
    return spin(
        [&] {
          seen = gate_open;
          return std::atomic_ref(*gate).compare_exchange_strong(
              seen, gate_entered, std::memory_order_acquire, std::memory_order_relaxed);
        },
        who, gate_open, seen);
  }
  static void leave(std::uint32_t* gate) {
    jitter();
    std::atomic_ref(*gate).store(gate_open, std::memory_order_release);
  }
  /// Without a deadline, because the caller frees the memory that is read.
  static void shut(std::uint32_t* gate) {
    Backoff backoff(host_pace);
    for (;;) {
      jitter();
      std::uint32_t seen = gate_open;
      if (std::atomic_ref(*gate).compare_exchange_strong(seen, gate_shut,
                                                         std::memory_order_acquire) ||
          seen == gate_shut)
        return;
      backoff.pause();
    }
  }

  /// The handle by which peers read this thread's memory while the thread lives. Not the process
  /// number, because a process whose first thread has ended can't be read by that.
  static std::int32_t reader_handle() { return static_cast<std::int32_t>(syscall(SYS_gettid)); }

  bool read_peer(std::int32_t thread, void* to, const void* from, std::size_t bytes, Waiting who) {
    constexpr std::size_t most = std::size_t{64} << 20;  // between two checks of the abort word
    for (std::size_t done = 0; done < bytes; done += most) {
      if (done != 0 && is_set(watch_.abort)) return spin_yielding([] { return false; }, who, 0, 0);
      if (!read_bounded(thread, static_cast<std::byte*>(to) + done,
                        static_cast<const std::byte*>(from) + done, std::min(bytes - done, most),
                        who))
        return false;
    }
    return true;
  }

 private:
  static constexpr std::uint32_t gate_open = 0, gate_entered = 1, gate_shut = 2;

  /// A process that has ended can't be read; the monitor notices that it is gone and ends this
  /// wait. Addresses that are not mapped, and a system that now forbids the read, end it at once.
  bool read_bounded(std::int32_t thread, std::byte* to, const std::byte* from, std::size_t bytes,
                    Waiting who) {
    jitter();
    bool is_readable = true;
    const std::uint32_t seen = 0;
    const bool ended = spin(
        [&] {
          while (bytes != 0) {
            const iovec local{to, bytes}, remote{const_cast<std::byte*>(from), bytes};
            const ssize_t count = process_vm_readv(thread, &local, 1, &remote, 1, 0);
            if (count <= 0)
              return !(is_readable = count == 0 || (errno != EFAULT && errno != EPERM));
            to += count;
            from += count;
            bytes -= static_cast<std::size_t>(count);
          }
          return true;
        },
        who, 0, seen);
    if (is_readable) return ended;
    Patience(watch_, block_, who, 0).report(unreadable, seen);
    team_.break_up();
    return false;
  }

  /// For a barrier of the block: a thread that waits for another rank gives up first.
  Patience of_team() const {
    return Patience(watch_, block_, {watch_.rank, threads_of_the_block}, threads(), 2);
  }

  static void fence([[maybe_unused]] std::memory_order order) {
#if !defined(__SANITIZE_THREAD__)  // which knows no fences, and runs where stores keep their order
    std::atomic_thread_fence(order);
#endif
  }

  static std::uint64_t combine(std::uint32_t data, std::uint32_t flag) {
    return data | (std::uint64_t{flag} << 32);
  }
  static std::atomic_ref<std::uint64_t> half(Packet* packet, int index) {
    // Scratch is only accessed this way.
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(packet)[index]);
  }

  template <class Ready>
  bool spin(Ready ready, Waiting who, std::uint32_t expected, const std::uint32_t& seen) {
    // No pause at first: two cores are a hundred nanoseconds apart, and a pause may take fifty.
    constexpr std::uint32_t without_pause = 32;
    // What this thread has published for another node travels while it waits, so it begins to carry
    // soon.
    const std::uint32_t spins = watch_.carry == nullptr ? watch_.spins : 0;
    for (std::uint32_t i = 0; i <= spins; ++i) {
      if (ready()) return true;
      if (i >= without_pause) pause();
    }
    return spin_yielding(ready, who, expected, seen);
  }

  template <class Ready>
  bool spin_yielding(Ready ready, Waiting who, std::uint32_t expected, const std::uint32_t& seen) {
    Patience patience(watch_, block_, who, expected);
    Backoff backoff(host_pace);
    for (;;) {
      for (int i = 0; i < 4; ++i) {
        if (ready()) return true;
        if (watch_.carry != nullptr) {
          watch_.carry(watch_.carrier, who.peer);
          if (ready()) return true;
        }
        backoff.pause();
      }
      if (patience.over(seen) || team_.broken()) {
        team_.break_up();
        return false;
      }
    }
  }
  /// As the butterfly of a GPU's wave.
  template <class Op>
  static float tree(float* values, Op op) {
    for (unsigned apart = row_group / 2; apart > 0; apart /= 2)
      for (unsigned i = 0; i < apart; ++i) values[i] = op(values[i], values[i + apart]);
    return values[0];
  }
  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
  static void jitter() {
#ifdef PLAIT_HOST_JITTER
    random_delay();
#endif
  }

  unsigned block_, blocks_, thread_;
  unsigned vote_ = 0;
  Team& team_;
  const Watch& watch_;
  std::byte* buffer_;
};

static_assert(Device<KernelWords>);

}  // namespace plait::host
