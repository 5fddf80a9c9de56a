#include "algorithms/all_reduce/flash/descriptor.hpp"

namespace plait::flash {
namespace {

class Flash final : public FlashAlgorithm {
 public:
  Flash() : FlashAlgorithm(false) {}
  StaticName name() const override { return "flash"; }
  std::string_view summary() const override {
    return "pull through a pipeline of asynchronous copies; two ranks the whole input, more a "
           "slice, pushed: symmetric memory, no scratch";
  }
};

class FlashBulk final : public FlashAlgorithm {
 public:
  FlashBulk() : FlashAlgorithm(true) {}
  StaticName name() const override { return "flash_bulk"; }
  std::string_view summary() const override {
    return "as flash, but the bulk copy engine fetches the packs of many threads at once, where "
           "the target has one";
  }
};

const AlgorithmRegistration<Flash> own_copies;
const AlgorithmRegistration<FlashBulk> bulk_copies;

}  // namespace
}  // namespace plait::flash
