// Collectives of one hop that add nothing up, by the copy engines, on symmetric memory: the largest messages.
//
//   1. Barrier: everybody's output may be written, and input read.
//   2. Copy: every rank copies its blocks into the outputs of those they are for, one peer after the other, the next rank first, so that
//      nobody is written to by two at a time; beside that, what it sends to itself. In a gather, the root copies from the inputs instead:
//      only inputs lie in symmetric memory there.
//   3. Barrier: all copies have arrived, and nobody reads inputs any more. A rank's barrier comes after its copies in its stream.
//
// Cost: two hops and (n - 1) blocks, at the rate of one copy at a time: that of a switch that gives one peer the whole link. Resources:
// those of a barrier.
#include "algorithms/barrier/kernel.hpp"
#include "algorithms/building_blocks/block_barrier.hpp"
#include "algorithms/building_blocks/direct_collectives.hpp"
#include "core/collective_algorithm.hpp"

namespace plait::direct_copy {
namespace {

class DirectCopy final : public CollectiveAlgorithm {
 public:
  using CollectiveAlgorithm::CollectiveAlgorithm;
  std::string_view name() const override { return "direct_copy"; }
  std::string_view summary() const override {
    return "copy engines copy whole blocks straight to whom they are for: symmetric memory, no scratch, the largest messages";
  }

  Resources resources(const Topology&) const override { return {}; }
  SharedResources shared(const Topology& topology) const override {
    return {.name = name(), .resources = {.scratch_bytes = 0, .signals = block_barrier_signals(1, topology.ranks), .counters = 1}};
  }

  /// Of the barriers.
  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const override {
    return {{.blocks = 1, .threads = std::min(32u, topology.block_threads)}};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    return 2 * (topology.launch_us + topology.signal_us) + topology.ranks * topology.copy_us +
           direct_bytes(call, topology) / topology.copy_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    const DirectPattern pattern = direct_pattern(call);
    const int rank = context.rank(), ranks = context.ranks();
    const std::size_t block = call.block_bytes();
    const auto* const send = static_cast<const std::byte*>(buffers.send);
    auto* const recv = static_cast<std::byte*>(buffers.recv);

    barrier(shape, context);
    context.at_once(
        [&] {
          if (!pattern.sends(rank, rank)) return;
          const std::byte* const from = send + pattern.send_begin(rank, block);
          std::byte* const to = recv + pattern.recv_begin(rank, block);
          if (from != to) context.copy(to, from, block);
        },
        [&] {
          for (int step = 1; step < ranks; ++step) {
            const int peer = rank_after(rank, step, ranks);
            if (call.collective == Collective::gather) {
              if (pattern.sends(peer, rank)) context.copy(recv + pattern.recv_begin(peer, block), buffers.peer_send(peer, 0), block);
            } else if (pattern.sends(rank, peer)) {
              context.copy(buffers.peer_recv(peer, pattern.recv_begin(rank, block)), send + pattern.send_begin(peer, block), block);
            }
          }
        });
    barrier(shape, context);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    // Copies within host memory hold up the thread that asks for them, until the peers have come.
    if (!topology.peer_access) return Support::no("devices must reach each other's memory");
    if (!call.symmetric) return Support::no("the buffers that every rank has must be in symmetric memory (Communicator::allocate)");
    if (call.collective == Collective::all_to_all && call.in_place) return Support::no("a block would be overwritten before it is sent");
    return {};
  }

 private:
  static void barrier(LaunchShape shape, LaunchContext& context) {
    if (context.ranks() == 1) return;
    const barrier::Args args{
        .signals = context.shared().signals, .epoch = context.shared().counters, .rank = context.rank(), .ranks = context.ranks()};
    context.launch("barrier", DataType::u8, {1, shape.threads}, args);
  }
};

const DirectRegistration<DirectCopy, false> registration;

}  // namespace
}  // namespace plait::direct_copy
