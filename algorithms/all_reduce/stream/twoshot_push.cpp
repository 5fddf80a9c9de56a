#include "algorithms/all_reduce/stream/descriptor.hpp"

namespace plait::twoshot_push {
namespace {

class TwoshotPush final : public stream::PushAlgorithm {
 public:
  TwoshotPush() : PushAlgorithm(stream::Results::outputs) {}
  std::string_view name() const override { return "twoshot_push"; }
  std::string_view summary() const override {
    return "push chunks through slots, reduce, push results into the outputs: symmetric memory, "
           "one barrier";
  }
  Resources resources(const Topology& topology) const override {
    return {.scratch_bytes = 0,
            .signals = block_barrier_signals(max_blocks, topology.ranks),
            .counters = max_blocks};
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    return call.symmetric
               ? Support()
               : Support::no("both buffers must be in symmetric memory (Communicator::allocate)");
  }
};

const AlgorithmRegistration<TwoshotPush> registration;

}  // namespace
}  // namespace plait::twoshot_push
