#include "algorithms/rooted/relay_ll128/descriptor.hpp"

namespace plait::relay_ll128 {
namespace {

class RelayLL128 final : public RelayAlgorithm {
 public:
  using RelayAlgorithm::RelayAlgorithm;
  StaticName name() const override { return "relay_ll128"; }
  std::string_view summary() const override {
    return "every other rank passes on, or adds up, a slice of the message, in lines of 128 bytes "
           "with 120 of data: two hops";
  }
};

const FamilyRegistration<RelayLL128, broadcast_and_reduce> registration;

}  // namespace
}  // namespace plait::relay_ll128
