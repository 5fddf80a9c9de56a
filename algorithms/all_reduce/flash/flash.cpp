#include "algorithms/all_reduce/flash/descriptor.hpp"

namespace plait::flash {
namespace {

class Flash final : public FlashAlgorithm {
 public:
  Flash() : FlashAlgorithm(false) {}
  std::string_view name() const override { return "flash"; }
  std::string_view summary() const override {
    return "pull through a pipeline of asynchronous copies; two ranks the whole input, more a "
           "slice, pushed: symmetric memory, no scratch";
  }
};

const AlgorithmRegistration<Flash> registration;

}  // namespace
}  // namespace plait::flash
