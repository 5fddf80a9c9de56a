#include <array>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/one_hop/direct_push/kernel.hpp"

namespace plait::direct_push {
namespace {

constexpr std::array collectives = {
    Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
    Collective::reduce,         Collective::all_to_all, Collective::gather,
    Collective::scatter,        Collective::scan,       Collective::exscan};

class DirectPush final : public ChannelAlgorithm {
 public:
  using ChannelAlgorithm::ChannelAlgorithm;
  StaticName name() const override { return "direct_push"; }
  std::string_view summary() const override {
    return "push chunks through slots with credits straight to the ranks they are for: any memory, "
           "bounded scratch";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    // As for stream: two small blocks per multiprocessor hide each other's waits, if there is
    // enough work for all.
    const unsigned threads =
        std::min(gathers(call, topology.ranks) ? 512u : 256u, topology.block_threads);
    const unsigned enough = call.bytes() < (std::size_t{16} << 20) ? 128 : max_blocks;
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {enough, 128u, 192u, 256u})
      shapes.push_back({blocks_for(call.block_bytes(), std::size_t{threads} * 16, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    // One signal per step, up to the number of chunks from which each has arrived before it is
    // waited for (2 H200, 64 KB to 256 MB, 2026-11-21).
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const std::size_t grain = chunk_grain(shape, topology),
                      stripe = Partition::of(call.block_bytes(), shape.blocks, grain).each;
    const double steps =
        static_cast<double>(std::min<std::size_t>((stripe + grain - 1) / grain, 4)) + 1;
    return time_between_nodes(topology.launch_us + steps * topology.signal_us,
                              direct_bytes(call, topology) / topology.push_bandwidth,
                              network_use(call, shape, topology), topology);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
  bool reduces_in_tree(const Call&, const Topology& topology) const override {
    return meets_in_tree(topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Topology& topology = context.topology();
    const Channels own = channels(context, slots_of(topology));
    const std::size_t grain = chunk_grain(shape, topology);
    const Partition stripes = Partition::of(call.block_bytes(), shape.blocks, grain);
    const std::uint32_t longest = longest_chunk(own.slot_bytes, grain, topology);
    // Between nodes a chunk is a message, and four take longer than one (4 x 2 CPU ranks, an
    // all-to-all of 256 KB: 1.2 ms instead of 2.5; 2026-11-30).
    const bool is_one =
        gathers(call, context.ranks()) || (topology.nodes > 1 && stripes.each <= longest);
    const Chunks chunks = Chunks::of(stripes.each, is_one ? 1 : 4, grain, longest);
    const Args args{.channels = with_chunks(own, chunks.bytes, context),
                    .pattern = direct_pattern(call),
                    .ahead = is_scan(call.collective)
                                 ? terms_of(call.collective, 0, context.ranks())
                                 : context.ranks(),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = stripes,
                    .chunks = chunks,
                    .lag = std::clamp(chunks.count(stripes.at(0)), 1u, own.slots / 2),
                    .reduction = reduction_of(call, topology)};
    context.launch(name(), args.pattern.reduces ? call.type : move_type(call.type), shape, args);
  }

 protected:
  bool reduces_rare(DataType) const override { return true; }

 private:
  static std::uint32_t slots_of(const Topology& topology) {
    return topology.nodes == 1 ? slots : slots_between_nodes;
  }

  /// A block to each rank, from each rank or the root alone, or to the root.
  static NetworkUse network_use(const Call& call, LaunchShape shape, const Topology& topology) {
    const bool rooted = direct_pattern(call).rooted();
    const double remote = remote_ranks(topology), block = static_cast<double>(call.block_bytes());
    NetworkUse use{.hops = 1,
                   .messages = 0,
                   .bytes = block * remote * (rooted ? 1 : topology.node_ranks),
                   .waits = 0};
    add_flows(use, block, remote, slots_of(topology), shape.blocks, topology);
    return use;
  }
  /// Whether the root gathers from several ranks. That takes the longest chunks and many threads,
  /// because the root empties slots faster than links fill them, on a device that does nothing else
  /// (4 H200, 16 and 64 MB: 34 and 136 us; with four chunks per stripe 39 and 139, with 256 threads
  /// 38 and 149. But a scatter of 64 MB takes 160 us with 512 threads, 146 with 256; 2026-11-22).
  static bool gathers(const Call& call, int ranks) {
    return call.collective == Collective::gather && ranks > 2;
  }

  /// Within a node a step moves 64 KB to, or from, all peers together, but at least the packs that
  /// a block's threads have on their way at once. Longer chunks lie further apart and are slower
  /// (reduce_scatter, 4 H200, 256 MB: 595 us with 20 KB, 611 with 42 KB; 658 with 8 KB;
  /// 2026-11-22). Between nodes a chunk is a message, so a long one costs the least.
  static std::uint32_t longest_chunk(std::uint32_t slot_bytes, std::size_t grain,
                                     const Topology& topology) {
    if (topology.nodes > 1) return slot_bytes;
    const std::size_t share = (std::size_t{64} << 10) /
                              static_cast<unsigned>(std::max(topology.ranks - 1, 1)) / grain *
                              grain;
    return std::min(slot_bytes, static_cast<std::uint32_t>(std::max(share, 4 * grain)));
  }
};

const FamilyRegistration<DirectPush, collectives> registration;

}  // namespace
}  // namespace plait::direct_push
