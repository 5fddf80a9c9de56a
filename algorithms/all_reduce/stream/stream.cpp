#include "algorithms/all_reduce/stream/descriptor.hpp"

namespace plait::stream {
namespace {

class StreamAlgorithm final : public PushAlgorithm {
 public:
  StreamAlgorithm() : PushAlgorithm(Results::slots) {}
  StaticName name() const override { return "stream"; }
  std::string_view summary() const override {
    return "push chunks through slots with credits, reduce, push results through slots: any "
           "memory, bounded scratch";
  }
  Resources resources(const Topology&) const override { return {}; }
};

class TwoshotPush final : public PushAlgorithm {
 public:
  TwoshotPush() : PushAlgorithm(Results::outputs) {}
  StaticName name() const override { return "twoshot_push"; }
  std::string_view summary() const override {
    return "push chunks through slots, reduce, push results into the outputs: symmetric memory, "
           "one barrier";
  }
  Resources resources(const Topology& topology) const override {
    return peer_signals_for(max_blocks, topology.ranks);
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    return in_symmetric_memory(call);
  }
};

const AlgorithmRegistration<StreamAlgorithm> results_by_slots;
const AlgorithmRegistration<TwoshotPush> results_by_stores;

}  // namespace
}  // namespace plait::stream
