#include "algorithms/all_reduce/flash/descriptor.hpp"

namespace plait::flash_bulk {
namespace {

class FlashBulk final : public flash::FlashAlgorithm {
 public:
  FlashBulk() : FlashAlgorithm(true) {}
  std::string_view name() const override { return "flash_bulk"; }
  std::string_view summary() const override {
    return "as flash, but the bulk copy engine fetches the packs of many threads at once, where "
           "the target has one";
  }
};

const AlgorithmRegistration<FlashBulk> registration;

}  // namespace
}  // namespace plait::flash_bulk
