#include "communicator/call_publisher.hpp"

#include "communicator/observe/call_number.hpp"

namespace plait {

AlgorithmList::AlgorithmList() {
  for (const auto& algorithm : Registry::instance().all()) algorithms_.push_back(algorithm.get());
}

std::vector<std::string> AlgorithmList::names() const {
  std::vector<std::string> names;
  for (const Algorithm* algorithm : algorithms_) names.emplace_back(algorithm->name());
  return names;
}

/// All ranks must agree on which calls share launches, and with how many others. Both ends of a
/// message know only the message, so its signature says no more.
inline Signature CallPublisher::sign(const GroupedCall& grouped, const GroupPlan& plan) const {
  const PreparedCall& call = grouped.call;
  if (call.is_empty_message()) return Signature::of(call.call, Signature::no_algorithm, {});
  const GroupStep& step = plan.steps[grouped.step];
  const std::size_t company = step.calls.size();
  const bool message = call.is_message(), alone = message || company == 1;
  const Algorithm& algorithm = message ? *call.algorithm : *step.algorithm;
  Signature signature = Signature::of(call.call, algorithms_.number_of(algorithm),
                                      alone ? call.shape : LaunchShape{}, call.place);
  if (!alone) signature.options += company - 1;
  return signature;
}

void CallPublisher::publish(GroupPlan& plan) {
  if (std::exchange(plan.is_published, true)) return;
  numbers_.resize(plan.calls.size());
  std::size_t last = 0;  // the call that the part before belongs to
  for (std::size_t i = 0; i < plan.calls.size(); ++i) {
    const GroupedCall& grouped = plan.calls[i];
    const PreparedCall& call = grouped.call;
    const Signature signature = sign(grouped, plan);
    if (!call.is_message()) {
      numbers_[i] = ++collectives_;
      board_.publish(collectives_, signature);
    } else if (call.is_empty_message()) {
      // Published, because the peer's end may not be empty.
      board_.publish_message(call.buffers.peer, call.sends, signature);
      continue;
    } else {
      numbers_[i] = message_bit | ++messages_;
      if (call.buffers.peer != rank_)
        board_.publish_message(call.buffers.peer, call.sends, signature);
    }
    if (std::exchange(last, grouped.number) != grouped.number) ++calls_;
  }
}

}  // namespace plait
