#include "communicator/calls/publisher.hpp"

#include "communicator/observe/call_number.hpp"

namespace plait {

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

inline CallPublisher::Part CallPublisher::part_of(const GroupedCall& grouped,
                                                  const GroupPlan& plan) const {
  const PreparedCall& call = grouped.call;
  const auto kind = [&] {
    if (!call.is_message()) return Part::Kind::collective;
    if (call.is_empty_message()) return Part::Kind::empty_message;
    return call.buffers.peer == rank_ ? Part::Kind::own_message : Part::Kind::message;
  };
  return {.kind = kind(),
          .sends = call.sends,
          .peer = call.buffers.peer,
          .signature = sign(grouped, plan)};
}

/// Returns the part's number; an empty message has none.
inline std::uint64_t CallPublisher::publish(const Part& part) {
  switch (part.kind) {
    case Part::Kind::collective:
      board_.publish(++collectives_, part.signature);
      return collectives_;
    case Part::Kind::empty_message:  // published, because the peer's end may not be empty
      board_.publish_message(part.peer, part.sends, part.signature);
      return 0;
    case Part::Kind::message:
      board_.publish_message(part.peer, part.sends, part.signature);
      break;
    case Part::Kind::own_message:
      break;
  }
  return message_bit | ++messages_;
}

void CallPublisher::publish(GroupPlan& plan) {
  if (std::exchange(plan.is_published, true)) return;
  numbers_.resize(plan.calls.size());
  std::size_t last = 0;  // the call that the part before belongs to
  for (std::size_t i = 0; i < plan.calls.size(); ++i) {
    const GroupedCall& grouped = plan.calls[i];
    numbers_[i] = publish(part_of(grouped, plan));
    if (!grouped.call.is_empty_message() && std::exchange(last, grouped.number) != grouped.number)
      ++calls_;
  }
}

CallPublisher::Parts CallPublisher::parts_of(const GroupPlan& plan) const {
  Parts parts;
  for (const GroupedCall& grouped : plan.calls) parts.push_back(part_of(grouped, plan));
  return parts;
}

std::uint64_t CallPublisher::publish(const Parts& parts, std::size_t first) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const std::uint64_t own = publish(parts[i]); i == first) number = own;
  ++calls_;
  return number;
}

void CallPublisher::publish_refused(const RefusedNumbers& numbers, std::string_view why) {
  if (numbers.collective) ++collectives_;
  if (!numbers.are_none()) board_.publish_refused(numbers, collectives_, why);
}

}  // namespace plait
