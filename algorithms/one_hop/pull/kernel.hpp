// Collectives on ordinary memory with one copy: ranks read each other's buffers where they lie. For
// processes of a host that allows it, and for threads of one process.
//
//   1. Tell: each rank stores the addresses of its buffers, and its process, at all peers.
//   2. Enter: a barrier among thread blocks b of all ranks. After it, addresses and inputs are
//      there.
//   3. Pull: a rank that gets data reads it from the peers. If data is added up, this goes in
//      chunks that stay in the cache: a rank reads all peers' parts of a chunk into a buffer, from
//      the next rank's on so that no two read from the same peer at a time, and adds them in the
//      order of the ranks. In an all-reduce, a rank does so for its slice of the message, in a scan
//      for the whole message of the ranks before it.
//   4. All-reduce only: a second barrier, after which all slices are reduced. Then each rank reads
//      the slices of the others from their outputs.
//   5. Leave: a last barrier. After it, no rank reads this rank's buffers any more.
//   6. If a wait gives up instead: shut the gates of the ranks that read this rank's buffers.
//
// Why no barrier is missing. Phase 1 of the next call overwrites an address. A rank begins that
// call after the last barrier of this one, which all ranks enter after they have read the address.
// In place, a rank writes only where no peer reads. While inputs are read, it writes its own slice
// of an all-reduce, or its own block of a reduce-scatter. In phase 4 it writes the other slices,
// while peers read its own slice. In the collectives that move blocks, it writes all blocks but its
// own. All-to-all and scans alone write where peers still read. So if a rank has one of them in
// place, which all ranks see by the addresses, all ranks go chunk by chunk. In an all-to-all they
// read a chunk of each block into a buffer, with one barrier before the chunk is stored and one
// after. In a scan they keep the sum of a chunk in the buffer until a barrier: then all ranks have
// read the chunk, and whoever is ahead reads another one.
//
// Why phase 6 is enough. A rank whose call has failed may free its buffers, while the barrier's
// words of this rank let a slower peer pass. Within one process, each read stands between `enter`
// and `leave` of the reader's gate for this rank and thread block. `shut` waits for a reader inside
// and keeps later ones out, until they hear that the communicator is broken. A reader inside one
// gate may wait at another that is shut. That wait ends, too: the monitors tell of the failure, and
// they wait at no gate. Between processes the system refuses to read memory that is gone.
//
// Cost: 2 barriers, 3 for an all-reduce, and one system call per chunk or block.
// Resources: 32 bytes, a gate and a signal word per (thread block, writer), one epoch per thread
// block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "algorithms/blocks/flags/block_peers.hpp"
#include "algorithms/blocks/flags/sliced_all_reduce.hpp"
#include "algorithms/blocks/loops/buffer_sum.hpp"
#include "algorithms/blocks/patterns/direct_pattern.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/pair.hpp"

namespace plait::pull {

using Types = InRuns<AllReducedTypes>;  // move-only collectives launch as bytes

/// The addresses of a rank's buffers in its process.
struct Place {
  const std::byte* send;
  std::byte* recv;
  std::int64_t process;
  std::int64_t reader_handle;  // by which other processes read this one
};

/// The length of chunks that need no buffer. Longer reads cost less per byte, and what has been
/// read is still in a cache when the kernel goes over it (exscan of 2 MB, 2 CPU ranks: 232 us; with
/// 64 KB 300, with 1 MB 254; 2026-11-27).
constexpr std::size_t longest_chunk = std::size_t{256} << 10;
constexpr int max_ranks = 64;  // a chunk then has about a kilobyte

struct Args {
  WindowView places;  // Place [block][writer]
  WindowView gates;   // [block][rank that is read], in the reader's memory
  PeerSignals peers;
  const std::byte* send;
  std::byte* recv;
  bool all_reduce;  // else a scan, or the collective of `pattern`
  bool scans;
  int terms;  // of a scan: the result is the sum of that many first ranks
  DirectPattern pattern;
  std::size_t count;  // elements of a block
  /// Only an all-reduce has slices; otherwise the stripes are those of a block.
  SlicedMessage message;
  Reduction reduction;
  std::int64_t process;  // of this rank

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

template <class T, class D>
class Pull {
 public:
  PLAIT_DEVICE Pull(D& dev, const Args& a) : dev_(dev), a_(a), peers_(dev, a.peers) {}

  PLAIT_DEVICE void run() {
    tell();
    if (peers_.barrier() && pull() && peers_.barrier()) peers_.finish();
    else shut_gates();
  }

 private:
  /// The buffer of the thread, for the chunks of all peers together. It has room for so many
  /// chunks, perhaps none, numbered from 1 on.
  struct Buffer {
    std::byte* bytes;
    std::size_t chunk;
    Buffer(D& dev, int chunks)
        : bytes(dev.buffer()),
          chunk(chunks > 0 ? D::buffer_bytes / static_cast<unsigned>(chunks) / 64 * 64
                           : longest_chunk) {}
    std::byte* of(int number) { return bytes + static_cast<unsigned>(number - 1) * chunk; }
  };

  PLAIT_DEVICE bool pull() {
    if (!a_.all_reduce && !a_.pattern.reduces) return move();
    return add() && (!a_.all_reduce || read_slices());
  }
  PLAIT_DEVICE Place& place(int owner, int writer) const {
    return *slot_of<Place>(a_.places, dev_.block(), a_.peers.ranks, owner, writer);
  }
  PLAIT_DEVICE void tell() {
    for (int peer = 0; peer < a_.peers.ranks; ++peer)
      place(peer, a_.peers.rank) = {a_.send, a_.recv, a_.process, D::reader_handle()};
  }
  PLAIT_DEVICE Place place_of(int rank) const { return place(a_.peers.rank, rank); }
  PLAIT_DEVICE int peer_at(int step) const {
    return rank_after(a_.peers.rank, step, a_.peers.ranks);
  }
  PLAIT_DEVICE bool is_near(const Place& place) const { return place.process == a_.process; }

  /// The gate of `reader` in front of the buffers of `owner`.
  PLAIT_DEVICE std::uint32_t* gate(int reader, int owner) const {
    return slot_of<std::uint32_t>(a_.gates, dev_.block(), a_.peers.ranks, reader, owner);
  }
  PLAIT_DEVICE void shut_gates() {
    for (int peer = 0; peer < a_.peers.ranks; ++peer)
      if (peer != a_.peers.rank) D::shut(gate(peer, a_.peers.rank));
  }
  /// Enters gates of peers, and leaves them at its end.
  class Visit {
   public:
    PLAIT_DEVICE explicit Visit(Pull& reader) : reader_(reader) {}
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    PLAIT_DEVICE ~Visit() {
      for (int rank = 0; entered_ >> rank != 0; ++rank)
        if ((entered_ >> rank & 1u) != 0) D::leave(reader_.gate(reader_.a_.peers.rank, rank));
    }
    PLAIT_DEVICE bool enter(int rank) {
      if (!reader_.dev_.enter(reader_.gate(reader_.a_.peers.rank, rank),
                              {rank, reader_.peers_.epoch()}))
        return false;
      entered_ |= std::uint64_t{1} << rank;
      return true;
    }

   private:
    Pull& reader_;
    std::uint64_t entered_ = 0;  // bit r: rank r
    static_assert(max_ranks <= 64);
  };

  /// `buffer`: the one that holds the bytes. It is null if the peer makes another call than this
  /// rank. The system then refuses the read, while a read by this code would end the program.
  PLAIT_DEVICE bool is_read_here(const Place& place, const std::byte* buffer) const {
    return is_near(place) && buffer != nullptr;
  }
  PLAIT_DEVICE bool read(int rank, const Place& place, std::byte* to, const std::byte* buffer,
                         std::size_t at, std::size_t bytes) {
    const std::byte* const from = buffer + at;
    if (!is_read_here(place, buffer))
      return dev_.read_peer(static_cast<std::int32_t>(place.reader_handle), to, from, bytes,
                            {rank, peers_.epoch()});
    if (to == from) return true;
    Visit visit(*this);
    if (!visit.enter(rank)) return false;
    D::copy_bytes(to, from, bytes);
    return true;
  }

  /// All sums go through here, because the compiler copies its code to every call.
  PLAIT_DEVICE bool add() {
    const int rank = a_.peers.rank, ranks = a_.peers.ranks;
    const bool keeps = a_.scans && is_in_place_somewhere();
    int terms = ranks;  // the sum is that of so many first ranks
    Range range = a_.message.stripes.at(dev_.block());
    std::size_t begin = 0;  // in the inputs
    int chunks = ranks - 1;
    if (a_.all_reduce) {
      range = a_.message.stripe(rank, dev_.block());
    } else if (a_.scans) {
      terms = a_.terms;
      // The first term that is read goes to where the result will be. The last chunk of the buffer
      // keeps the result if need be.
      chunks = (ranks > 2 ? ranks - 2 : 0) + (keeps ? 1 : 0);
    } else {
      if (!a_.pattern.sends(rank, rank)) return true;
      begin = a_.pattern.send_begin(rank, a_.count) * sizeof(T);
    }
    Buffer buffer(dev_, chunks);
    for (std::size_t at = range.begin; at < range.end; at += buffer.chunk) {
      const std::size_t bytes = range.end - at < buffer.chunk ? range.end - at : buffer.chunk;
      std::byte* const result = keeps ? buffer.of(chunks) : a_.recv + at;
      if (terms != 0 &&
          !add_chunk(buffer, terms, begin + at, bytes, a_.scans ? result : nullptr, result))
        return false;
      if (!keeps) continue;
      if (!peers_.barrier()) return false;
      if (terms != 0) D::copy_bytes(a_.recv + at, result, bytes);
    }
    return true;
  }
  /// Reads the slices of an all-reduce that other ranks have reduced.
  PLAIT_DEVICE bool read_slices() {
    if (!peers_.barrier()) return false;
    for (int step = 1; step < a_.peers.ranks; ++step) {
      const int peer = peer_at(step);
      const Range theirs = a_.message.stripe(peer, dev_.block());
      const Place from = place_of(peer);
      if (!read(peer, from, a_.recv + theirs.begin, from.recv, theirs.begin, theirs.size()))
        return false;
    }
    return true;
  }

  /// Adds the terms of the first `ranks` ranks, `bytes` bytes from `at` on, and stores the sum in
  /// `result`. `to`: the place for the first term that is read from another process; null: the
  /// buffer.
  PLAIT_DEVICE bool add_chunk(Buffer& buffer, int ranks, std::size_t at, std::size_t bytes,
                              std::byte* to, std::byte* result) {
    const std::byte* terms[max_ranks];  // where each rank's term begins
    int buffered = 0;
    for (int step = 0; step < a_.peers.ranks; ++step) {
      const int rank = peer_at(step);
      if (rank >= ranks) continue;
      const Place from = place_of(rank);
      terms[rank] = from.send + at;
      if (is_read_here(from, from.send)) continue;
      std::byte* const copy = to != nullptr ? to : buffer.of(++buffered);
      to = nullptr;
      terms[rank] = copy;
      if (!read(rank, from, copy, from.send, at, bytes)) return false;
    }
    Visit visit(*this);
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != a_.peers.rank && is_near(place_of(rank)) && !visit.enter(rank)) return false;
    const auto term = [&terms](int rank) { return reinterpret_cast<const T*>(terms[rank]); };
    const std::size_t elements = bytes / sizeof(T);
    const Packs<T, D::pack_bytes> out(reinterpret_cast<T*>(result), elements);
    std::size_t whole = out.whole();
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t its = Packs<const T, D::pack_bytes>(term(rank), elements).whole();
      whole = its < whole ? its : whole;
    }
    BufferSum<T, D, decltype(term)> sum(dev_, term, ranks, elements, whole, a_.reduction);
    sum.run(in_packs<D::pack_bytes>({0, bytes}), 1,
            [result](int) { return reinterpret_cast<T*>(result); });
    return true;
  }

  PLAIT_DEVICE bool move() {
    const Range stripe = a_.message.stripes.at(dev_.block());
    const std::size_t begin = a_.pattern.send_begin(a_.peers.rank, a_.count);
    const auto output = [&](int from) { return a_.recv + a_.pattern.recv_begin(from, a_.count); };
    if (writes_inputs()) {
      Buffer buffer(dev_, a_.peers.ranks - 1);
      for (std::size_t at = stripe.begin; at < stripe.end; at += buffer.chunk) {
        const std::size_t bytes = stripe.end - at < buffer.chunk ? stripe.end - at : buffer.chunk;
        for (int step = 1; step < a_.peers.ranks; ++step)
          if (!read_step(step, buffer.of(step), begin + at, bytes)) return false;
        if (!peers_.barrier()) return false;
        for (int step = 1; step < a_.peers.ranks; ++step)
          D::copy_bytes(output(peer_at(step)) + at, buffer.of(step), bytes);
        if (!peers_.barrier()) return false;
      }
      return read_step(0, output(a_.peers.rank) + stripe.begin, begin + stripe.begin,
                       stripe.size());
    }
    for (int step = 0; step < a_.peers.ranks; ++step) {
      const int peer = peer_at(step);
      if (a_.pattern.sends(peer, a_.peers.rank) &&
          !read_step(step, output(peer) + stripe.begin, begin + stripe.begin, stripe.size()))
        return false;
    }
    return true;
  }
  PLAIT_DEVICE bool read_step(int step, std::byte* to, std::size_t at, std::size_t bytes) {
    const Place from = place_of(peer_at(step));
    return read(peer_at(step), from, to, from.send, at, bytes);
  }
  /// Whether this is an all-to-all that a rank has in place.
  PLAIT_DEVICE bool writes_inputs() const {
    return a_.pattern.block_per_target && a_.pattern.block_per_source && is_in_place_somewhere();
  }
  PLAIT_DEVICE bool is_in_place_somewhere() const {
    bool any = false;
    for (int rank = 0; rank < a_.peers.ranks; ++rank)
      any = any || place_of(rank).send == place_of(rank).recv;
    return any;
  }

  D& dev_;
  const Args& a_;
  BlockPeers<D> peers_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if constexpr (D::has_peer_reads) {
      Pull<T, D>(dev, a).run();
    }
  }
};

}  // namespace plait::pull
