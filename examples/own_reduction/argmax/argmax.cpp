// The algorithm that launches the kernel.
#include "argmax/argmax.hpp"

#include <limits>

#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"

namespace {

class Argmax final : public plait::oneshot_ll::OneshotAlgorithm {
 public:
  Argmax() : OneshotAlgorithm(plait::UnitKind::packets(), 64) {}  // a 64th of the scratch memory
  plait::StaticName name() const override { return "argmax"; }
  std::string_view summary() const override {
    return "oneshot_ll for candidates: the greatest value and its index";
  }
  double estimate(const plait::Call&, const plait::Topology&) const override {
    return std::numeric_limits<double>::infinity();  // so it runs only when named
  }

 protected:
  plait::Support supports_call(const plait::Call& call,
                               const plait::Topology& topology) const override {
    if (call.type != plait::DataType::u64) return plait::Support::no("only candidates, as u64");
    return OneshotAlgorithm::supports_call(call, topology);
  }
};

const plait::AlgorithmRegistration<Argmax> registration;

}  // namespace

void argmax(plait::Communicator& comm, std::span<const Candidate> send, std::span<Candidate> recv,
            plait::StreamRef stream) {
  if (send.size() != recv.size())
    throw plait::Error(plait::ErrorCode::invalid_argument, "argmax: send and recv differ in size");
  comm.all_reduce(send.data(), recv.data(), recv.size(), plait::DataType::u64, plait::ReduceOp::max,
                  stream, {.algorithm = "argmax"});
}
