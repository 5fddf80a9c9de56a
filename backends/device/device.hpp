// The words that kernels are written in. Each target models the concept `Device` in its own file
// (host/host_words.hpp, gpu/gpu_words.hpp). A kernel sees nothing else and contains no #ifdef and
// no vendor builtin.
//
// A kernel is a struct with a trivially copyable Args:
//
//     template <class T>
//     struct Kernel {
//       template <Device D>
//       PLAIT_DEVICE static void run(D& dev, const Args& a);
//     };
//
// Every thread of `dev.blocks()` blocks of `dev.threads()` threads runs it.
//
// Write `if constexpr (...) { ... }` with braces in kernels: if a pragma stands between a discarded
// statement without braces and the loop after it, nvcc 13.0 drops that loop (seen as a sum that
// lost all terms but one). Index an array in Args by a run-time value only where
// `D::indexed_arguments` allows it: otherwise clang for AMD GPUs keeps all of Args on a stack in
// memory and no longer knows that the pointers in it point to global memory.
//
// Rules that make waiting safe (docs/invariants.md): block b waits only for block b of a peer;
// every flag has one writer; a rank polls its own memory only; a wait that returns false means that
// the communicator is broken, and the kernel returns at once.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/launch_types.hpp"
#include "backends/device/pack.hpp"
#include "backends/device/target.hpp"

namespace plait {

/// 8 bytes of data, each half with its flag beside it. A store of one half is atomic on every
/// target, so data and flag arrive together without a barrier; CUDA moves the whole packet at once.
/// A flag is an epoch: it is never 0 and repeats only after at least 2^32 - 2 others.
struct alignas(16) Packet {
  std::uint32_t data0, flag0, data1, flag1;
};

/// The 8 bytes of elements that a packet carries.
struct alignas(8) PacketData {
  std::uint32_t word[2];
};
inline constexpr std::size_t packet_bytes = sizeof(PacketData);
template <class T>
using PacketElements = Pack<T, packet_bytes>;

template <class T>
PLAIT_DEVICE PacketData to_packet(const PacketElements<T>& elements) {
  return bits_as<PacketData>(elements);
}
template <class T>
PLAIT_DEVICE PacketElements<T> from_packet(PacketData data) {
  return bits_as<PacketElements<T>>(data);
}

/// 120 bytes of data and their flag in one access of 128 bytes, on targets that can do that: a
/// packet with little overhead ("LL128" of NCCL). `D::line_threads` consecutive threads of a block,
/// the first a multiple of their number, write or read a line together. Each thread has an equal
/// share of the 16 words, and the last word of the last thread is the flag. `D::line_threads` is 0
/// where the target has no lines.
///
/// `D::line_group` threads (a multiple of `line_threads`) stay together: all of them call `put` and
/// `get` in the same order, each thread for its own line, so no condition that differs between the
/// lines of a group may separate its threads. A thread that has no line says so (`live`, `wanted`),
/// and nothing is accessed for it. The number of threads in a block is a multiple of the group.
struct alignas(128) Line {
  std::uint64_t word[16];
};
template <int Count>
struct LineShare {
  PacketData word[Count];
};

/// 16 bytes of data that need no flag ("Lamport" in other libraries). An empty slot is zero, and
/// neither word of what is sent is ever zero, so a word that is not zero has arrived. Each word is
/// single-copy atomic on every target. algorithms/blocks/flags/marked.hpp makes such words of
/// elements.
struct alignas(16) Marked {
  std::uint64_t word[2];
};

/// A thread's staging memory for asynchronous copies. Only this thread fills and reads its places,
/// so no barrier of the block is needed. A copy is ordered like a load: after everything that the
/// thread did before it. A place holds the copied data once a `wait_pending` has seen the end of
/// the copy's group, and it may be filled again after it was loaded. Number places by constants,
/// after unrolling: they are registers where copies are plain loads.
///
/// A kernel has at most one staging memory and declares its size in packs: `static constexpr int
/// staged_packs`.
template <class S, class P>
concept StagingMemory = std::default_initializable<S> && requires(S staging, const P* from) {
  staging.copy_async(0, from);  // starts a copy of own or a peer's memory to place 0
  // Closes a group, perhaps an empty one, of all copies started since the last `commit`.
  staging.commit();
  staging.template wait_pending<1>();  // until all groups but the latest one are complete
  { staging.load(0) } -> std::same_as<P>;
};

template <class D, class P, int Count>
using Staging = typename D::template Staging<P, Count>;

template <class D>
using FloatPack = Pack<float, D::pack_bytes>;
template <class D>
using TwoFloatPacks = Staging<D, FloatPack<D>, 2>;

/// See `Device::reduce`.
inline constexpr unsigned row_group = 32;

/// See `Device::block_memory`.
inline constexpr std::size_t block_memory_bytes = 8192;

template <class D>
concept Device = requires(D dev, bool flag, std::uint32_t* slot, const std::uint32_t* mine,
                          Packet* packet, PacketData data, const Packet* const (&packets)[2],
                          PacketData (&received)[2], const Waiting (&peers)[2], Waiting who,
                          Marked* place, const Marked* const (&places)[2], Marked (&taken)[2],
                          FloatPack<D>* pack, float (*operation)(float, float),
                          float (*of)(unsigned, unsigned)) {
  // The thread's place in the launch.
  { dev.block() } -> std::same_as<unsigned>;
  { dev.blocks() } -> std::same_as<unsigned>;
  { dev.thread() } -> std::same_as<unsigned>;  // in its block
  { dev.threads() } -> std::same_as<unsigned>;

  // `sync` is a barrier of the block. `all` is one, too, and returns true if all threads passed
  // true.
  dev.sync();
  { dev.all(flag) } -> std::same_as<bool>;

  // `block_memory`: `block_memory_bytes` bytes that the threads of the block share, aligned to 16
  // and not zeroed. `arrive` adds one to a word of this rank's own memory and returns what was
  // there before. It is a release and an acquire among the blocks of the rank: whoever sees a
  // number sees all that those who came before it had written.
  { dev.block_memory() } -> std::same_as<std::byte*>;
  { dev.arrive(slot) } -> std::same_as<std::uint32_t>;

  // `reduce`: for the `packs` packs of a row, in parts of `part_packs`, which are whole waves of
  // the target, a pack for each thread; up to 8 parts. Combines what `of(part, place)` says of this
  // thread's packs by a commutative operation; `none` is its neutral number. All threads get the
  // same bits: those of a tree over 64 groups of 32 packs, on every target and for all sizes of
  // parts. It has barriers of the block. `threads_as_launched`: a block has as many threads as the
  // launch asks for; otherwise a thread has several packs of a part. `RowValues<Parts, Width>`: a
  // thread's places for the numbers of a row, `Width` for each pack. They are registers where
  // `threads_as_launched`, so name parts by constants, after unrolling. Up to 64 KB for a block.
  { dev.template reduce<2>(1u, 1u, of, operation, 0.0f) } -> std::same_as<float>;
  { D::threads_as_launched } -> std::convertible_to<bool>;
  typename D::template RowValues<2, 4>;

  // Packs: aligned loads and stores of `pack_bytes` bytes of own or a peer's memory.
  { dev.load(pack) } -> std::same_as<FloatPack<D>>;
  dev.store(pack, *pack);

  // Asynchronous copies of packs in own or a peer's memory.
  requires StagingMemory<TwoFloatPacks<D>, FloatPack<D>>;

  // Arguments. `indexed_arguments`: whether a run-time value may index an array in the arguments;
  // see above. `to_global`: marks a pointer that was loaded from memory as a pointer to global
  // memory; clang for AMD GPUs knows that only of pointers in arguments. `uniform`: takes a value
  // of whole 32-bit words that was loaded from memory and is the same in all threads of the block.
  { D::indexed_arguments } -> std::convertible_to<bool>;
  { dev.to_global(slot) } -> std::same_as<std::uint32_t*>;
  { dev.uniform(1u) } -> std::same_as<unsigned>;

  // Signals. `signal` is a release at system scope: everything that this thread wrote, and that its
  // block wrote before the last `sync`, is visible to any thread that sees the value. `wait` is an
  // acquire at system scope: true once `*mine` has reached `at_least` (as a signed difference).
  dev.signal(slot, 1u);
  { dev.wait(mine, 1u, who) } -> std::same_as<bool>;

  // Packets. `get` is true once the packets whose bit is set carry `flag`; their loads are in
  // flight together. Neither orders other memory accesses.
  dev.put(packet, data, 1u);
  { dev.get(packets, received, 3u, 1u, peers) } -> std::same_as<bool>;
  // A target with lines also has put(Line*, LineShare<16 / line_threads>, flag, live) and its
  // `get`.
  { D::line_threads } -> std::convertible_to<int>;
  { D::line_group } -> std::convertible_to<int>;

  // Marked data. `take` is true once no word is zero in the slots whose bit is set; their loads are
  // in flight together. `empty` stores zeros. None of them orders other memory accesses, but two
  // words do: `release` is a fence at system scope, after which comes what this thread stores, and
  // before which comes everything that it stored and that its block stored before the last `sync`.
  // `acquire` makes this thread's `take` of the slot an acquire; the slot is not empty yet.
  dev.put(place, taken[0]);
  { dev.take(places, taken, 3u, 1u, peers) } -> std::same_as<bool>;
  dev.empty(place);
  dev.release();
  dev.acquire(place);

  // Peer reads: reads of ordinary memory of other processes. read_peer(handle, to, from, bytes,
  // who) is true once the bytes are copied. `handle` is the result of reader_handle() in the peer's
  // thread that waits for the read. copy_bytes(to, from, bytes) does the same within one process.
  //
  // Within one process, a peer that gives up may free the memory while this rank still reads it. So
  // each read goes through a gate, a word that is zero at first. The reader calls enter(gate, who)
  // before the read and leave(gate) after it. The peer calls shut(gate), which waits until the
  // reader has left; then the gate stays shut. At a shut gate, `enter` waits as `wait` does for a
  // signal that never comes, and returns false.
  { D::has_peer_reads } -> std::convertible_to<bool>;
};

/// Call counter of a block, kept in device memory so that a captured launch advances it at every
/// replay. Zeroed memory means "no call yet". It skips 0 when it wraps, and its parity still
/// alternates.
struct Epoch {
  std::uint32_t value;
  PLAIT_DEVICE Epoch next() const { return {value == 0xffffffffu ? 2u : value + 1u}; }
  PLAIT_DEVICE unsigned half() const { return value & 1u; }  // index of one of two buffers
};

/// A contiguous range [begin, end) of packs, elements or bytes.
struct Range {
  std::size_t begin, end;
  PLAIT_DEVICE constexpr std::size_t size() const { return end - begin; }
};

/// A buffer seen as packs of `Bytes` bytes. The base may have any alignment of T, and the last pack
/// may be partial. Such packs move element by element; lanes beyond the end read as zero and are
/// not stored.
template <class T, std::size_t Bytes>
class Packs {  // of T or const T
 public:
  using P = Pack<std::remove_const_t<T>, Bytes>;
  static constexpr std::size_t lanes = P::lanes;

  PLAIT_DEVICE Packs(T* base, std::size_t count)
      : base_(base), count_(count), whole_(is_aligned(base) ? count / lanes : 0) {}

  PLAIT_DEVICE std::size_t count() const { return count_; }  // elements
  PLAIT_DEVICE std::size_t size() const { return (count_ + lanes - 1) / lanes; }
  /// Packs before this index are complete and aligned, so `packs()` may access them. 0 if the base
  /// is not aligned.
  PLAIT_DEVICE std::size_t whole() const { return whole_; }
  /// The first packs of a range that are complete and aligned.
  PLAIT_DEVICE std::uint32_t whole_in(const Range& range) const {
    const std::size_t end = range.end < whole_ ? range.end : whole_;
    return end <= range.begin ? 0u : static_cast<std::uint32_t>(end - range.begin);
  }
  PLAIT_DEVICE auto packs() const {
    return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const P, P>*>(base_);
  }

  template <class D>
  PLAIT_DEVICE P load(D& dev, std::size_t i) const {
    return i < whole_ ? dev.load(reinterpret_cast<const P*>(base_ + i * lanes)) : load_elements(i);
  }
  /// Loads element by element, whatever the alignment.
  PLAIT_DEVICE P load_elements(std::size_t i) const {
    P pack{};
    PLAIT_UNROLL
    for (std::size_t j = 0; j < lanes; ++j)
      if (i * lanes + j < count_) pack.lane[j] = base_[i * lanes + j];
    return pack;
  }
  template <class D>
  PLAIT_DEVICE void store(D& dev, std::size_t i, const P& pack) const {
    if (i < whole_) return dev.store(reinterpret_cast<P*>(base_ + i * lanes), pack);
    store_elements(i, pack);
  }
  PLAIT_DEVICE void store_elements(std::size_t i, const P& pack) const {
    PLAIT_UNROLL
    for (std::size_t j = 0; j < lanes; ++j)
      if (i * lanes + j < count_) base_[i * lanes + j] = pack.lane[j];
  }

 private:
  PLAIT_DEVICE static bool is_aligned(const T* p) {
    return reinterpret_cast<std::uintptr_t>(p) % alignof(P) == 0;
  }

  T* base_;
  std::size_t count_;
  std::size_t whole_;
};

/// [0, size) in equal pieces; the last ones may be shorter or empty. Every boundary inside is a
/// multiple of the grain. Make it once, where a division is cheap (on the host, or before a loop):
/// a 64-bit division takes a GPU a tenth of a microsecond.
struct Partition {
  std::size_t size, each;

  PLAIT_DEVICE static constexpr Partition of(std::size_t size, std::size_t pieces,
                                             std::size_t grain = 1) {
    const std::size_t grains = (size + grain - 1) / grain;
    return {size, (grains + pieces - 1) / pieces * grain};
  }
  PLAIT_DEVICE constexpr Range at(std::size_t index) const {
    const std::size_t begin = index * each, end = begin + each;
    return {begin < size ? begin : size, end < size ? end : size};
  }
};

/// Converts a range of bytes to packs of `Bytes` bytes. The result begins at the boundary of a pack
/// or, if it is empty, at the end of the whole buffer. A partial last pack counts as one.
template <std::size_t Bytes>
PLAIT_DEVICE constexpr Range in_packs(Range bytes) {
  return {(bytes.begin + Bytes - 1) / Bytes, (bytes.end + Bytes - 1) / Bytes};
}

/// The bytes of these packs.
template <std::size_t Bytes>
PLAIT_DEVICE constexpr std::size_t in_whole_packs(Range bytes) {
  return in_packs<Bytes>(bytes).size() * Bytes;
}

/// The rank `step` places after `rank`, for `step` from 0 to the number of ranks.
PLAIT_DEVICE constexpr int rank_after(int rank, int step, int ranks) {
  return rank + step < ranks ? rank + step : rank + step - ranks;
}

}  // namespace plait
