// Kernels of a program's own, written once for GPUs and for CPU ranks: they load and store the
// memory of other ranks, signal and wait, and add up values of all ranks. docs/own-kernels.md has
// the rules and an example. The headers that this one needs come with the component `kernels`.
//
//     struct Shift {  // each rank's block b moves a part of the next rank's memory here
//       template <class Here>
//       PLAIT_DEVICE void operator()(Here& here, plait::PeerView<float> view, float* to,
//                                    std::size_t count) const {
//         here.signal(view.before(), 0);            // my memory is ready
//         if (!here.wait(view.after(), 0)) return;  // so is my neighbour's
//         for (std::size_t i = here.index(); i < count; i += here.stride())
//           to[i] = view[view.after()][i];
//         here.barrier();                           // nobody reads any more
//       }
//     };
//     plait::launch(comm, stream, {blocks, threads}, Shift{}, plait::view_of(comm, buffer), to,
//                   count);
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "backends/device/device.hpp"
#include "backends/device/launch_types.hpp"
#include "plait/buffer.hpp"
#include "plait/communicator.hpp"
#include "plait/detail/launched_kernel.hpp"
#include "plait/stream.hpp"

namespace plait {
namespace detail {
template <Device D, bool Packets>
class RowMail;
}

/// The copies of all ranks of a piece of symmetric memory, by rank. Trivially copyable: pass it to
/// any kernel. Valid on the device of the rank that made it, as long as the memory is.
template <class T>
class PeerView {
 public:
  PeerView() = default;
  PLAIT_DEVICE explicit PeerView(const PeerWindow& peers) : peers_(peers) {}

  /// Where rank `rank`'s copy begins, in this rank's address space.
  PLAIT_DEVICE T* operator[](int rank) const {
    return reinterpret_cast<T*>(peers_.window.peer_ptr(rank));
  }
  PLAIT_DEVICE T* own() const { return reinterpret_cast<T*>(peers_.window.own); }
  PLAIT_DEVICE int rank() const { return peers_.window.rank; }
  PLAIT_DEVICE int ranks() const { return peers_.ranks; }
  /// The ranks beside this one in a ring.
  PLAIT_DEVICE int after() const { return rank_after(rank(), 1, ranks()); }
  PLAIT_DEVICE int before() const { return rank_after(rank(), ranks() - 1, ranks()); }
  /// The same, from an element on.
  PLAIT_DEVICE PeerView at(std::size_t elements) const {
    PeerWindow part = peers_;
    part.window = part.window.at(elements * sizeof(T));
    return PeerView(part);
  }
  const PeerWindow& peers() const { return peers_; }

 private:
  PeerWindow peers_;
};

/// A view of memory that `comm` has allocated or attached. Local. `Error(invalid_argument)` if it
/// belongs to another communicator or was detached; `Error(unsupported)` if this rank can't load
/// and store all copies: ranks on several nodes, or memory that only system calls can read.
template <class T>
PeerView<T> view_of(const Communicator& comm, const std::shared_ptr<Window>& window) {
  return PeerView<T>(comm.view(window));
}
template <class T>
PeerView<T> view_of(const Communicator& comm, const Buffer<T>& buffer) {
  return view_of<T>(comm, buffer.window());
}

/// Where a thread of a kernel is, and what it can do with the other ranks. A block of threads with
/// the same number runs on every rank, and meets these blocks only.
///
/// All threads of a block make each call together, unless it says otherwise. Calls that return
/// false have waited for a rank in vain, or the communicator is broken: the kernel must return at
/// once. The host then says which rank is missing, in `Communicator::synchronize` and later calls.
///
/// Memory order, in the words of C++: everything that the threads of a block did before `signal`
/// or `barrier` happens before what the threads of the block do whose `wait` or `barrier` has seen
/// it. All other accesses of two ranks to the same place are races, unless they only read.
template <Device D>
class Here {
 public:
  static constexpr unsigned slots = KernelSetting::slots;

  PLAIT_DEVICE Here(D& dev, const KernelSetting& setting) : dev_(dev), s_(setting) {}
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;

  PLAIT_DEVICE int rank() const { return s_.rank; }
  PLAIT_DEVICE int ranks() const { return s_.ranks; }
  // As in the launch. But on CPU ranks a block has one thread, or PLAIT_HOST_BLOCK_THREADS.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE unsigned block() const { return dev_.block(); }
  PLAIT_CALLS_HOST
  PLAIT_DEVICE unsigned blocks() const { return dev_.blocks(); }
  PLAIT_CALLS_HOST
  PLAIT_DEVICE unsigned threads() const { return dev_.threads(); }
  PLAIT_CALLS_HOST
  PLAIT_DEVICE unsigned thread() const { return dev_.thread(); }
  /// For a loop of all blocks: `for (i = here.index(); i < n; i += here.stride())`.
  PLAIT_DEVICE std::size_t index() const { return std::size_t{block()} * threads() + thread(); }
  PLAIT_DEVICE std::size_t stride() const { return std::size_t{blocks()} * threads(); }

  /// 16 bytes of own or a peer's memory in one access, which need not be atomic; aligned to 16. Any
  /// thread alone.
  PLAIT_CALLS_HOST
  template <class T>
  PLAIT_DEVICE Pack<T, 16> load16(const T* from) const {
    return dev_.load(reinterpret_cast<const Pack<T, 16>*>(from));
  }
  PLAIT_CALLS_HOST
  template <class T>
  PLAIT_DEVICE void store16(T* to, const Pack<T, 16>& value) const {
    dev_.store(reinterpret_cast<Pack<T, 16>*>(to), value);
  }

  /// A barrier of the block. It orders nothing between ranks.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE void sync() { dev_.sync(); }

  /// Adds `count` to the signals from this block to the same block of rank `peer` in a slot, which
  /// is below `slots`. They are kept until they are awaited, also by later launches; up to
  /// 2^31 - 1 of them.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE void signal(int peer, unsigned slot, std::uint32_t count = 1) {
    dev_.sync();
    if (dev_.thread() == 0 && has(peer) && slot < slots) send(peer, slot, count);
  }
  /// Waits until so many more signals of rank `peer` have come in the slot than were awaited
  /// before. Fails at the deadline if there is no such rank or slot; `signal` sends nothing there.
  PLAIT_CALLS_HOST
  [[nodiscard]] PLAIT_DEVICE bool wait(int peer, unsigned slot, std::uint32_t count = 1) {
    const bool exists = has(peer) && slot < slots;
    bool came = true;
    if (dev_.thread() == 0)
      came = await(exists ? peer : s_.rank, exists ? slot : s_.no_slot, exists ? count : 1);
    return dev_.all(came);
  }

  /// No block goes on before the same block of every rank has come here.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE bool barrier() {
    bool came = true;
    dev_.sync();
    for (int peer = first(); peer < s_.ranks; peer += step()) send(peer, s_.barrier, 1);
    for (int peer = first(); peer < s_.ranks; peer += step())
      came = came && await(peer, s_.barrier, 1);
    return dev_.all(came);
  }

  /// Adds up each value over the threads of this block, and then over the same blocks of all ranks.
  /// All threads get the results, equal in all bits on all ranks: threads are added in an order
  /// that depends on their number only, and ranks in theirs. At most 8 values, of at most 8 bytes.
  /// Orders no other accesses.
  template <class T, std::size_t Count>
  PLAIT_DEVICE bool sum(T (&values)[Count]) {
    add_threads(values);
    return add_ranks(block(), values);
  }
  /// Adds up each value over all threads of all blocks of all ranks. When the kernel has ended,
  /// `results`, `Count` values in memory of this rank's device, has the sums, equal in all bits on
  /// all ranks. All blocks call it, once in a kernel, and nothing that waits comes after it: the
  /// last block waits for other ranks' last blocks. If a block leaves it out, later totals are
  /// wrong.
  PLAIT_CALLS_HOST
  template <class T, std::size_t Count>
  PLAIT_DEVICE bool total(T (&values)[Count], T* results) {
    add_threads(values);
    if (dev_.thread() == 0)
      for (std::size_t k = 0; k < Count; ++k) *partial<T>(block(), k) = values[k];
    dev_.sync();
    auto* const before = reinterpret_cast<std::uint32_t*>(dev_.block_memory());
    if (dev_.thread() == 0) *before = dev_.arrive(s_.arrived);
    dev_.sync();
    if (*before != blocks() - 1) return true;
    T sums[Count] = {};
    for (unsigned b = dev_.thread(); b < blocks(); b += dev_.threads())
      for (std::size_t k = 0; k < Count; ++k) sums[k] += *partial<T>(b, k);
    add_threads(sums);
    if (dev_.thread() == 0) *s_.arrived = 0;
    if (!add_ranks(s_.max_blocks, sums)) return false;
    if (dev_.thread() == 0)
      for (std::size_t k = 0; k < Count; ++k) results[k] = sums[k];
    return true;
  }

 private:
  template <Device, bool>
  friend class detail::RowMail;

  PLAIT_DEVICE bool has(int peer) const { return peer >= 0 && peer < s_.ranks; }
  PLAIT_CALLS_HOST
  PLAIT_DEVICE int first() const { return static_cast<int>(dev_.thread()); }
  PLAIT_CALLS_HOST
  PLAIT_DEVICE int step() const { return static_cast<int>(dev_.threads()); }

  PLAIT_DEVICE std::size_t index(unsigned row, int rank) const {
    return (std::size_t{block()} * s_.rows + row) * static_cast<unsigned>(s_.ranks) +
           static_cast<unsigned>(rank);
  }
  /// One thread at a time for each row and peer.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE void send(int peer, unsigned row, std::uint32_t count) {
    auto* const words = reinterpret_cast<std::uint32_t*>(s_.words.peer_ptr(peer));
    dev_.signal(words + index(row, s_.rank), s_.sent[index(row, peer)] += count);
  }
  PLAIT_CALLS_HOST
  PLAIT_DEVICE bool await(int peer, unsigned row, std::uint32_t count) {
    return await(peer, row, count, row);
  }
  /// `step`: for the diagnostic record.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE bool await(int peer, unsigned row, std::uint32_t count, unsigned step) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(s_.words.own);
    return dev_.wait(words + index(row, peer), s_.seen[index(row, peer)] += count, {peer, step});
  }

  template <class T>
  PLAIT_DEVICE T* partial(unsigned block, std::size_t value) const {
    return reinterpret_cast<T*>(s_.partials + std::size_t{block} * s_.max_values + value);
  }
  /// Up to 32 threads add every 32nd value, and then each thread adds those sums.
  PLAIT_CALLS_HOST
  template <class T, std::size_t Count>
  PLAIT_DEVICE void add_threads(T (&values)[Count]) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8,
                  "sum and total take trivially copyable values of at most 8 bytes");
    static_assert(Count <= KernelSetting::max_values, "sum and total take at most 8 values");
    const unsigned threads = dev_.threads(), adding = threads < 32 ? threads : 32;
    T* const all = reinterpret_cast<T*>(dev_.block_memory());
    PLAIT_UNROLL
    for (T& value : values) {
      dev_.sync();  // nobody uses the memory any more
      all[dev_.thread()] = value;
      dev_.sync();
      if (dev_.thread() < adding) {
        for (unsigned t = dev_.thread() + adding; t < threads; t += adding) value += all[t];
        all[dev_.thread()] = value;
      }
      dev_.sync();
      value = all[0];
      for (unsigned t = 1; t < adding; ++t) value += all[t];
    }
  }
  /// Each value goes to every rank in a packet of its own. Two halves take turns: a rank sends its
  /// next values after it has seen all of this round, and the values after those once all ranks
  /// have.
  PLAIT_CALLS_HOST
  template <class T, std::size_t Count>
  PLAIT_DEVICE bool add_ranks(unsigned round, T (&values)[Count]) {
    const Epoch epoch = Epoch{s_.round_numbers[round]}.next();
    T* const all = reinterpret_cast<T*>(dev_.block_memory());  // [rank][value]
    const unsigned items = static_cast<unsigned>(s_.ranks) * unsigned{Count};
    bool came = true;
    dev_.sync();
    for (unsigned i = dev_.thread(); i < items; i += dev_.threads()) {
      const T mine = at(values, i % Count);
      PacketData data{};
      __builtin_memcpy(&data, &mine, sizeof(T));
      dev_.put(packet(static_cast<int>(i / Count), round, epoch, s_.rank, i % Count), data,
               epoch.value);
    }
    for (unsigned i = dev_.thread(); i < items && came; i += dev_.threads()) {
      const int peer = static_cast<int>(i / Count);
      const Packet* const packets[1] = {packet(s_.rank, round, epoch, peer, i % Count)};
      const Waiting who[1] = {{peer, KernelSetting::sum}};
      PacketData got[1];
      came = dev_.get(packets, got, 1u, epoch.value, who);
      __builtin_memcpy(&all[i], &got[0], sizeof(T));
    }
    if (!dev_.all(came)) return false;
    PLAIT_UNROLL
    for (std::size_t k = 0; k < Count; ++k) {
      values[k] = all[k];
      for (int r = 1; r < s_.ranks; ++r) values[k] += all[static_cast<unsigned>(r) * Count + k];
    }
    // Read again, by all threads, behind the barriers of the next `add_threads`.
    if (dev_.thread() == 0) s_.round_numbers[round] = epoch.value;
    return true;
  }
  PLAIT_DEVICE Packet* packet(int owner, unsigned round, Epoch epoch, int writer,
                              std::size_t value) const {
    const std::size_t row =
        (std::size_t{round} * 2 + epoch.half()) * static_cast<unsigned>(s_.ranks) +
        static_cast<unsigned>(writer);
    return reinterpret_cast<Packet*>(s_.packets.peer_ptr(owner)) + row * s_.max_values + value;
  }
  /// By constant indices, so the values stay in registers.
  template <class T, std::size_t Count>
  PLAIT_DEVICE static T at(const T (&values)[Count], std::size_t index) {
    T value = values[0];
    PLAIT_UNROLL
    for (std::size_t k = 1; k < Count; ++k)
      if (k == index) value = values[k];
    return value;
  }

  D& dev_;
  const KernelSetting& s_;
};

// Files of two compilers may have the same kernel.
inline namespace PLAIT_TARGETS {

/// Runs `kernel(here, arguments...)` in `shape.blocks` blocks of `shape.threads` threads on the
/// devices of all ranks. Collective: all ranks launch the same kernel in the same shape; arguments
/// may differ. Asynchronous and ordered on `stream`, with deadline, abort and progress like any
/// call; may be captured, and stand in a group, where nothing moves over it. Kernel and arguments
/// are copied. They are trivially copyable, and have up to 3.8 KB together. A view is an argument
/// by itself: of one inside another object the library does not know, so it can't refuse one of
/// memory that is gone, nor keep the memory for a graph.
///
/// `Error(invalid_argument)` for a shape of more than 256 blocks or 512 threads, for a view of
/// memory that the communicator doesn't have any more, and where the kernel was not compiled for
/// the communicator's devices. `Error(unsupported)` with ranks on several nodes. `Error(mismatch)`
/// if ranks launch different kernels or shapes.
template <class Kernel, class... A>
void launch(Communicator& comm, StreamRef stream, LaunchShape shape, const Kernel& kernel,
            const A&... arguments) {
  detail::launch(comm, stream, {.shape = shape}, kernel, arguments...);
}

}  // namespace PLAIT_TARGETS
}  // namespace plait
