#include "algorithms/all_reduce/recursive_doubling/kernel.hpp"
#include "algorithms/blocks/flags/ll_algorithm.hpp"

namespace plait::recursive_doubling {
namespace {

class RecursiveDoubling final : public LLAlgorithm {
 public:
  RecursiveDoubling() : LLAlgorithm(UnitKind::packets()) {}
  StaticName name() const override { return "recursive_doubling"; }
  std::string_view summary() const override {
    return "exchange partial results with rank XOR 2^s; extra ranks fold in before and out after";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_for(units_of(call.bytes()), topology);
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const auto schedule = DoublingSchedule::of(0, topology.ranks);
    const int hops = std::max(schedule.rounds + (schedule.has_guests ? 2 : 0), 1);
    return topology.launch_us + hops * (hop_us(static_cast<double>(call.bytes()), topology) +
                                        sending(static_cast<double>(call.bytes()), topology));
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    return two_terms_travel(call, topology);
  }
  bool reduces_in_tree(const Call&, const Topology& topology) const override {
    return doubles_in_tree(topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Args args{.scratch = context.grant().scratch,
                    .layout = layout(context.topology()),
                    .schedule = DoublingSchedule::of(context.rank(), context.ranks()),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = Partition::of(units_of(call.bytes()), shape.blocks, shape.threads),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override {
    return static_cast<std::uint32_t>(DoublingSchedule::of(0, topology.ranks).steps());
  }
};

const AlgorithmRegistration<RecursiveDoubling> registration;

}  // namespace
}  // namespace plait::recursive_doubling
