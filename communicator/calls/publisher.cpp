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
  if (call.own_kernel != nullptr) signature.place = call.own_kernel->extents.packed();
  if (!alone) signature.options += company - 1;
  return signature;
}

inline CallPublisher::Announcement CallPublisher::announcement_of(const GroupedCall& grouped,
                                                                  const GroupPlan& plan) const {
  const PreparedCall& call = grouped.call;
  const auto kind = [&] {
    if (!call.is_message()) return Kind::collective;
    if (call.is_empty_message()) return Kind::empty_message;
    return call.buffers.peer == rank_ || call.is_one_sided() ? Kind::own_message : Kind::message;
  };
  return {.kind = kind(),
          .sends = call.sends,
          .peer = call.buffers.peer,
          .signature = sign(grouped, plan)};
}

/// Returns the number; an empty message has none.
inline std::uint64_t CallPublisher::publish(const Announcement& one) {
  switch (one.kind) {
    case Kind::collective:
      board_.publish(++collectives_, one.signature);
      return collectives_;
    case Kind::empty_message:  // published, because the peer's end may not be empty
      board_.publish_message(one.peer, one.sends, one.signature);
      return 0;
    case Kind::message:
      board_.publish_message(one.peer, one.sends, one.signature);
      break;
    case Kind::own_message:
      break;
  }
  return message_bit | ++messages_;
}

void CallPublisher::publish(GroupPlan& plan) {
  if (std::exchange(plan.is_published, true)) return;
  numbers_.resize(plan.calls.size());
  std::size_t last = 0;  // the call of the announcement before
  for (std::size_t i = 0; i < plan.calls.size(); ++i) {
    const GroupedCall& grouped = plan.calls[i];
    numbers_[i] = publish(announcement_of(grouped, plan));
    if (!grouped.call.is_empty_message() && std::exchange(last, grouped.number) != grouped.number)
      ++calls_;
  }
}

std::vector<CallPublisher::Announcement> CallPublisher::announcements_of(
    const GroupPlan& plan) const {
  std::vector<Announcement> all;
  for (const GroupedCall& grouped : plan.calls) all.push_back(announcement_of(grouped, plan));
  return all;
}

std::uint64_t CallPublisher::publish(std::span<const Announcement> all, std::size_t first) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (const std::uint64_t own = publish(all[i]); i == first) number = own;
  ++calls_;
  return number;
}

void CallPublisher::publish_refused(const RefusedNumbers& numbers, std::string_view why) {
  if (numbers.collective) ++collectives_;
  if (!numbers.are_none()) board_.publish_refused(numbers, collectives_, why);
}

}  // namespace plait
