#include <array>

#include "algorithms/blocks/flags/peer_algorithm.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/one_hop/pull/kernel.hpp"

namespace plait::pull {
namespace {

constexpr unsigned max_blocks = 64;

constexpr std::array collectives = {Collective::all_reduce, Collective::reduce_scatter,
                                    Collective::all_gather, Collective::broadcast,
                                    Collective::reduce,     Collective::all_to_all,
                                    Collective::gather,     Collective::scatter,
                                    Collective::scan,       Collective::exscan};

class PullAlgorithm final : public CollectiveAlgorithm {
 public:
  using CollectiveAlgorithm::CollectiveAlgorithm;
  StaticName name() const override { return "pull"; }
  std::string_view summary() const override {
    return "read the peers' buffers where they lie, one copy: any memory, no scratch, two barriers "
           "or three; CPU ranks only";
  }

  SharedResources shared(const Topology& topology) const override {
    if (!is_served(topology)) return {};
    Resources resources = peer_signals_for(max_blocks, topology.ranks);
    resources.scratch_bytes =
        block_slots(max_blocks, topology.ranks) * (sizeof(Place) + sizeof(std::uint32_t));
    return {.name = name(), .resources = resources};
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return {{.blocks = reading_blocks(call.bytes(), topology.units, max_blocks), .threads = 1}};
  }
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, max_blocks), 1};  // each thread needs its own buffer
  }

  /// Small messages cost a system call and the kernel's work for each page.
  double estimate(const Call& call, const Topology& topology) const override {
    const bool all_reduce = call.collective == Collective::all_reduce;
    const double moved =
        all_reduce ? 2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes())
                   : direct_bytes(call, topology);
    return topology.launch_us + (all_reduce ? 3 : 2) * topology.signal_us +
           (all_reduce ? 2 : 1) * std::max(topology.ranks - 1, 1) +
           moved / (0.6 * topology.link_bandwidth);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
  bool reduces_in_tree(const Call&, const Topology& topology) const override {
    return meets_in_tree(topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const bool all_reduce = call.collective == Collective::all_reduce,
               reduces = facts_of(call.collective).reduces;
    const Partition slices =
        Partition::of(call.bytes(), static_cast<unsigned>(context.ranks()), stripe_grain(1));
    const Args args{.places = context.shared().scratch,
                    .gates = context.shared().scratch.at(block_slots(max_blocks, context.ranks()) *
                                                         sizeof(Place)),
                    .peers = peer_signals(context, context.shared()),
                    .send = static_cast<const std::byte*>(buffers.send),
                    .recv = static_cast<std::byte*>(buffers.recv),
                    .all_reduce = all_reduce,
                    .scans = is_scan(call.collective),
                    .terms = terms_of(call.collective, context.rank(), context.ranks()),
                    .pattern = direct_pattern(call),
                    .count = reduces ? call.count : call.block_bytes(),
                    .message = {slices, Partition::of(all_reduce ? slices.each : call.block_bytes(),
                                                      shape.blocks, stripe_grain(1))},
                    .reduction = reduction_of(call, context.topology()),
                    .process = context.process()};
    context.launch(name(), reduces ? call.type : DataType::u8, shape, args);
  }

 protected:
  bool reduces_rare(DataType) const override { return true; }
  Support supports_call(const Call&, const Topology& topology) const override {
    if (is_served(topology)) return {};
    return Support::no(
        topology.ranks > max_ranks
            ? "more than " + std::to_string(max_ranks) + " ranks"
            : "ranks can't read each other's ordinary memory here (PLAIT_HOST_PEER_READS)");
  }

 private:
  static bool is_served(const Topology& topology) {
    return topology.peer_reads && topology.ranks <= max_ranks;
  }
};

const FamilyRegistration<PullAlgorithm, collectives> registration;

}  // namespace
}  // namespace plait::pull
