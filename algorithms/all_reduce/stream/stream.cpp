#include "algorithms/all_reduce/stream/descriptor.hpp"

namespace plait::stream {
namespace {

class StreamAlgorithm final : public PushAlgorithm {
 public:
  StreamAlgorithm() : PushAlgorithm(Results::slots) {}
  std::string_view name() const override { return "stream"; }
  std::string_view summary() const override {
    return "push chunks through slots with credits, reduce, push results through slots: any "
           "memory, bounded scratch";
  }
  Resources resources(const Topology&) const override { return {}; }
};

const AlgorithmRegistration<StreamAlgorithm> registration;

}  // namespace
}  // namespace plait::stream
