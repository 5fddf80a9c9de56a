// `one_sided` for a peer on another node: one block asks the peer's proxy, which serves the window
// (communicator/nodes/window_server.hpp). algorithms/blocks/channels/window_request.hpp says what
// travels.
//
//   put   for each chunk: 1. the block waits until its slot is free; 2. writes the request, and
//         behind it the bytes; 3. publishes both. The last request carries the signal.
//         4. The block waits until the peer has given back all slots: the bytes are in the window.
//   get   1. to 3. as a put without bytes; for each chunk of the reply: 4. the block waits for it;
//         5. stores it; 6. gives the slot back.
//
// A signal is a put without bytes that leaves step 4 out. In a group each put leaves it out, and it
// is a launch behind all of them.
//
// Why no barrier is missing.
// 1. The proof of channels (algorithms/blocks/channels/channel.hpp) holds, with chunks numbered
//    from the first one on: `ChannelState` stays zero, and this kernel's counts, in private memory,
//    take its place. Calls of a communicator run one after the other, so the counts have one user.
//    Slots are a power of two, so slot and note of a chunk are right also where counts wrap.
// 2. The peer gives a slot back after the bytes are in the window, and raises the signal before
//    that. So what comes after a put, on this stream or by its signals to any rank, finds the bytes
//    there, as on one node. A signal orders nothing but what came before it, which step 4 has done.
// 3. Requests of one rank are served in their order, so signals are counted in theirs.
// 4. A thread reads the counts before the first vote, and thread 0 writes them after it.
//
// Why it can't deadlock. The block waits for slots and replies alone. The peer's proxy gives both
// whatever kernels run there: it waits for nothing but its own copies and, in a get, for slots that
// this kernel gives back.
//
// Cost: a put and a get take a round trip, a signal half of one; a get's bytes and a put's cross
// the network once. Resources: the channels of one block, and two counters per peer.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/channels/window_request.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"

namespace plait::window_requests {

using Types = MoveTypes;

struct Args {
  Channels channels;  // in `WindowRequest::slots` slots
  const std::byte* from;
  std::byte* to;  // null: a put
  std::size_t bytes;
  std::uint64_t window, offset;
  std::uint32_t *asked, *answered;  // [peer]: chunks to and from it in all calls
  std::uint32_t signals;            // 0 or 1
  int peer;
  bool settles;  // step 4 of a put
};

template <class T, class D>
class WindowRequests {
 public:
  PLAIT_DEVICE WindowRequests(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        own_(a.channels, a.channels.blocks - WindowRequest::from_last_block - 1),
        asked_(a.asked[a.peer]),
        answered_(a.answered[a.peer]) {}

  PLAIT_DEVICE void put() {
    const Packs<const T, D::pack_bytes> from(reinterpret_cast<const T*>(a_.from),
                                             a_.bytes / sizeof(T));
    const Chunks cut{a_.channels.slot_bytes - std::uint32_t{sizeof(WindowRequest)}};
    const std::uint32_t chunks = a_.bytes == 0 ? a_.signals : cut.count(all());
    for (std::uint32_t k = 0; k < chunks; ++k) {
      const Range chunk = cut.at(all(), k);
      if (!may_ask(k)) return;
      fill_slot<in_flight>(dev_, from, in_packs<D::pack_bytes>(chunk),
                           reinterpret_cast<P*>(slot(k) + 1));
      ask(k, WindowRequest::Kind::put, k + 1 == chunks ? a_.signals : 0, chunk, chunk.size());
    }
    if (dev_.thread() != 0) return;
    a_.asked[a_.peer] = asked_ + chunks;
    if (a_.settles)
      wait({own_.may_send(WindowRequest::ask, a_.peer, 0).word, asked_ + chunks}, chunks);
  }

  PLAIT_DEVICE void get() {
    const Packs<T, D::pack_bytes> to(reinterpret_cast<T*>(a_.to), a_.bytes / sizeof(T));
    constexpr unsigned way = WindowRequest::reply;
    if (!may_ask(0)) return;
    ask(0, WindowRequest::Kind::get, 0, all(), 0);
    const Chunks cut{a_.channels.slot_bytes};
    const std::uint32_t chunks = cut.count(all());
    for (std::uint32_t k = 0; k < chunks; ++k) {
      bool arrived = true;
      if (dev_.thread() == 0) arrived = wait(own_.has_arrived(way, a_.peer, answered_ + k), k);
      if (!dev_.all(arrived)) return;
      empty_slot<in_flight>(dev_, own_.template incoming<P>(way, a_.peer, answered_ + k), to,
                            in_packs<D::pack_bytes>(cut.at(all(), k)));
      dev_.sync();  // all threads have read
      if (dev_.thread() == 0) signal(own_.consume(way, a_.peer, answered_ + k));
    }
    if (dev_.thread() != 0) return;
    a_.asked[a_.peer] = asked_ + 1;
    a_.answered[a_.peer] = answered_ + chunks;
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  static constexpr int in_flight = packs_in_flight<T, D>;

  PLAIT_DEVICE Range all() const { return {0, a_.bytes}; }
  PLAIT_DEVICE WindowRequest* slot(std::uint32_t k) const {
    return own_.template outgoing<WindowRequest>(WindowRequest::ask, a_.peer, asked_ + k);
  }
  PLAIT_DEVICE bool may_ask(std::uint32_t k) {
    bool room = true;
    if (dev_.thread() == 0) room = wait(own_.may_send(WindowRequest::ask, a_.peer, asked_ + k), k);
    return dev_.all(room);
  }
  /// `behind`: bytes in the slot behind the request.
  PLAIT_DEVICE void ask(std::uint32_t k, WindowRequest::Kind kind, std::uint32_t signals,
                        const Range& range, std::size_t behind) {
    if (dev_.thread() == 0)
      *slot(k) = {kind, signals, a_.window, a_.offset + range.begin, range.size()};
    dev_.sync();  // all threads have written
    if (dev_.thread() == 0)
      signal(own_.publish(WindowRequest::ask, a_.peer, asked_ + k, sizeof(WindowRequest) + behind));
  }
  PLAIT_DEVICE bool wait(const ChannelWait& wait, std::uint32_t k) {
    return dev_.wait(wait.word, wait.at_least, {a_.peer, k});
  }
  PLAIT_DEVICE void signal(const ChannelSignal& signal) { dev_.signal(signal.word, signal.value); }

  D& dev_;
  const Args& a_;
  BlockChannels own_;
  std::uint32_t asked_, answered_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    WindowRequests<T, D> requests(dev, a);
    if (a.to == nullptr) requests.put();
    else requests.get();
  }
};

}  // namespace plait::window_requests
