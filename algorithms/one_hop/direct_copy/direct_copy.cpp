// Collectives of one hop that add nothing up, by copy engines, on symmetric memory: the largest
// messages.
//
//   1. Barrier. After it, all outputs may be written and all inputs read.
//   2. Copy: every rank copies its blocks into the outputs of the ranks they are for, one peer
//      after another, the next rank first, so that no two ranks write to the same peer at a time.
//      Beside that, it copies its block for itself. In a gather the root copies from the inputs
//      instead, because only inputs lie in symmetric memory there.
//   3. Barrier. After it, all copies have arrived and no rank reads inputs any more, because a
//      rank's barrier comes after its copies in its stream.
//
// Cost: two hops and (n - 1) blocks, at the rate of one copy at a time: the full rate, if a switch
// gives one peer the whole link.
// Resources: those of a barrier.
#include "algorithms/barrier/launch.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait::direct_copy {
namespace {

class DirectCopy final : public CollectiveAlgorithm {
 public:
  using CollectiveAlgorithm::CollectiveAlgorithm;
  StaticName name() const override { return "direct_copy"; }
  std::string_view summary() const override {
    return "copy engines copy whole blocks straight to the ranks they are for: symmetric memory, "
           "no scratch, the largest messages";
  }

  SharedResources shared(const Topology& topology) const override {
    return {.name = name(), .resources = barrier::resources(topology)};
  }

  /// The shape of the barriers.
  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const override {
    return {barrier::shape(topology)};
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return barrier::one_block(shape);
  }

  double estimate(const Call& call, const Topology& topology) const override {
    return 2 * (topology.launch_us + topology.signal_us) + topology.ranks * topology.copy_us +
           direct_bytes(call, topology) / topology.copy_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const DirectPattern pattern = direct_pattern(call);
    const int rank = context.rank(), ranks = context.ranks();
    const std::size_t block = call.block_bytes();
    const auto* const send = static_cast<const std::byte*>(buffers.send);
    auto* const recv = static_cast<std::byte*>(buffers.recv);

    const std::size_t own_from = pattern.send_begin(rank, block),
                      own_to = pattern.recv_begin(rank, block);
    const bool copies_own = pattern.sends(rank, rank) && send + own_from != recv + own_to;
    const auto copy = [&](int step, Range part) {
      const int peer = rank_after(rank, step, ranks);
      if (call.collective == Collective::gather) {
        if (pattern.sends(peer, rank))
          context.copy(recv + pattern.recv_begin(peer, block) + part.begin,
                       buffers.peer_send(peer, part.begin), part.size());
      } else if (pattern.sends(rank, peer)) {
        context.copy(buffers.peer_recv(peer, pattern.recv_begin(rank, block) + part.begin),
                     send + pattern.send_begin(peer, block) + part.begin, part.size());
      }
    };
    // Where the second stream has nothing to do, it takes a little of the first copy: calls in one
    // line of a graph take longer the more there are (gather of 256 MB in place, 4 H200, CUDA 13.0:
    // 532 us in a graph of 5, 564 in one of 92, and 535 with this split. Halves collide: an
    // all-gather took 664 us instead of 572; 2026-11-22).
    const std::size_t beside = copies_own ? 0 : std::min<std::size_t>(block, 4096);

    barrier(shape, context);
    context.at_once(
        [&] {
          if (copies_own) context.copy(recv + own_to, send + own_from, block);
          else if (ranks > 1) copy(1, {0, beside});
        },
        [&] {
          if (ranks > 1) copy(1, {beside, block});
          for (int step = 2; step < ranks; ++step) copy(step, {0, block});
        });
    barrier(shape, context);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    // Copies within host memory block the calling thread until the peers have come.
    if (!topology.peer_access) return Support::no("devices must reach each other's memory");
    if (Support memory = in_symmetric_memory(call); !memory) return memory;
    if (call.collective == Collective::all_to_all && call.in_place)
      return Support::no("a block would be overwritten before it is sent");
    return {};
  }

 private:
  static void barrier(LaunchShape shape, LaunchContext& context) {
    if (context.ranks() != 1) barrier::launch(context, context.shared(), shape);
  }
};

const FamilyRegistration<DirectCopy, moving_collectives> registration;

}  // namespace
}  // namespace plait::direct_copy
