#include <array>
#include <span>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/rooted/chain/kernel.hpp"

namespace plait::chain {
namespace {

class Chain final : public ChannelAlgorithm {
 public:
  using ChannelAlgorithm::ChannelAlgorithm;
  StaticName name() const override { return "chain"; }
  std::string_view summary() const override {
    return "chunks go from rank to rank, passed on or added up: any memory, each rank talks to its "
           "neighbours only";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    // More threads, and so longer chunks, once a block has more than one chunk. Sums of 64-bit
    // elements leave registers for half as many threads.
    const bool many = call.bytes() >= std::size_t{6} << 20 && size_of(call.type) < 8;
    const unsigned threads = std::min(many ? 512u : 256u, topology.block_threads);
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {256u, 128u, 192u, 64u})
      shapes.push_back({blocks_for(call.bytes(), std::size_t{threads} * 64, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    // Hops of one block hide behind the other blocks' bytes (3 and 4 H200, 1 KB to 1 GB,
    // 2026-11-22).
    const int hops = topology.ranks - 1;
    const double bytes = static_cast<double>(call.bytes());
    // The chain leaves each node once.
    NetworkUse use{.hops = topology.nodes - 1.0, .bytes = bytes};
    add_flows(use, bytes, 1, slots, fitted(shapes(call, topology).front(), call, topology).blocks,
              topology);
    return time_between_nodes(topology.launch_us + (0.4 + 0.8 * hops) * topology.signal_us,
                              bytes / topology.push_bandwidth, use, topology);
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    // A scan adds each term to the sum of all before it. Of two zeros, min and max take that of the
    // rank that adds.
    const bool selects = call.op == ReduceOp::min || call.op == ReduceOp::max;
    return two_terms_travel(call, topology) ||
           (is_scan(call.collective) && accumulates_unrounded(call.type) && !selects);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Partition stripes = stripes_of(call, shape, context.topology());
    const Channels own = channels(context, slots);
    const Chunks chunks = chunks_of(stripes, shape, own.slot_bytes);
    const Mode mode = mode_of(call.collective);
    std::span<const int> order;  // of ranks, in which scans add
    if (!is_scan(call.collective)) order = context.topology().ring;
    const auto place = [&](int rank) { return RingPlace::of(order, rank, context.ranks()); };
    const Args args{.channels = with_chunks(own, chunks.bytes, context),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = stripes,
                    .chunks = chunks,
                    .reduction = reduction_of(call, context.topology()),
                    .mode = mode,
                    .place = place(context.rank()),
                    .first = mode == Mode::reduce ? place(call.root).after : call.root};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  bool reduces_rare(DataType) const override { return true; }
  Support supports_call(const Call&, const Topology& topology) const override {
    return topology.ranks == 1 ? Support::no("one rank has no other to pass chunks to") : Support();
  }

 private:
  static Mode mode_of(Collective collective) {
    switch (collective) {
      case Collective::reduce:
        return Mode::reduce;
      case Collective::scan:
        return Mode::scan;
      case Collective::exscan:
        return Mode::exscan;
      default:
        return Mode::broadcast;
    }
  }
  static Partition stripes_of(const Call& call, const LaunchShape& shape,
                              const Topology& topology) {
    return Partition::of(call.bytes(), shape.blocks, chunk_grain(shape, topology));
  }
  /// A chunk is whole passes of a block's threads, with four packs per thread on their way, or a
  /// whole slot: long chunks matter more than even ones (4 H200, 1 GB: 3055 us with 32 KB, 2999
  /// with 42; 2026-11-22).
  static Chunks chunks_of(const Partition& stripes, const LaunchShape& shape,
                          std::uint32_t slot_bytes) {
    return Chunks::of(stripes.each, 8, 4 * stripe_grain(shape.threads), slot_bytes);
  }
};

constexpr std::array collectives = {Collective::broadcast, Collective::reduce, Collective::scan,
                                    Collective::exscan};
const FamilyRegistration<Chain, collectives> registration;

}  // namespace
}  // namespace plait::chain
