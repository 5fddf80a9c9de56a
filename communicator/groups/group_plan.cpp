#include "communicator/groups/group_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace plait {
namespace {

bool awaits(const PreparedCall& call) {
  return call.buffers.one_sided.kind == Buffers::OneSided::Kind::await;
}

bool may_share(const PreparedCall& a, const PreparedCall& b) {
  if (awaits(a) != awaits(b)) return false;
  if (a.is_message() || b.is_message())
    return a.call.collective == b.call.collective && a.algorithm->family() == b.algorithm->family();
  return a.shares && b.shares && a.call.collective == b.call.collective &&
         a.call.type == b.call.type && a.call.op == b.call.op && a.call.root == b.call.root &&
         a.call.scale == b.call.scale && a.wished == b.wished &&
         (!a.wished || a.algorithm == b.algorithm);
}

/// Messages of one family become one step, in the memory that `steps` has. Returns false for any
/// other `calls`.
bool plan_one_family(std::span<const GroupedCall> calls, std::vector<GroupStep>& steps) {
  steps.resize(1);
  GroupStep& step = steps.front();
  step.calls.clear();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PreparedCall& call = calls[i].call;
    if (!call.is_message()) return false;
    if (call.is_empty_message()) continue;
    if (step.calls.empty()) {
      step.algorithm = call.algorithm;
      step.shape = call.shape;
    } else if (call.algorithm != step.algorithm &&
               call.algorithm->family() != step.algorithm->family()) {
      return false;
    }
    step.calls.push_back(i);
  }
  if (step.calls.empty()) steps.clear();
  return true;
}

void plan_any(std::span<const GroupedCall> calls,
              const std::function<const Algorithm*(const Call&)>& choose_batch,
              std::vector<GroupStep>& steps) {
  steps.clear();
  for_each_stretch(calls, [&](std::size_t begin, std::size_t end) {
    const auto first = static_cast<std::ptrdiff_t>(steps.size());
    const auto add = [&](std::size_t i) {
      const PreparedCall& call = calls[i].call;
      const auto step = std::find_if(
          steps.begin() + first, steps.end(),
          [&](const GroupStep& other) { return may_share(calls[other.calls.front()].call, call); });
      if (step == steps.end()) steps.push_back({call.algorithm, call.shape, {i}});
      else step->calls.push_back(i);
    };
    const auto is_message = [&](std::size_t i) { return calls[i].call.is_message(); };
    const auto is_await = [&](std::size_t i) { return awaits(calls[i].call); };
    for (std::size_t i = begin; i < end; ++i)
      if (is_message(i) && !is_await(i) && !calls[i].call.is_empty_message()) add(i);
    // Ranks may name the families in different orders, but must launch them in one order.
    std::sort(steps.begin() + first, steps.end(), [](const GroupStep& a, const GroupStep& b) {
      return a.algorithm->family() < b.algorithm->family();
    });
    for (std::size_t i = begin; i < end; ++i)
      if (!is_message(i)) add(i);
    for (std::size_t i = begin; i < end; ++i)
      if (is_await(i)) add(i);  // the peer may signal once it has all else
    for (auto step = steps.begin() + first; step != steps.end(); ++step) {
      const PreparedCall& one = calls[step->calls.front()].call;
      if (step->calls.size() == 1 || one.wished || one.is_message()) continue;
      Call all = one.call;
      all.count = 0;
      all.symmetric = all.in_place = false;
      for (const std::size_t i : step->calls) all.count += calls[i].call.call.count;
      if (const Algorithm* batching = choose_batch(all)) {
        step->algorithm = batching;
        continue;
      }
      // No algorithm serves so many at once.
      const std::vector<std::size_t> singles = std::exchange(step->calls, {step->calls.front()});
      for (auto i = singles.begin() + 1; i != singles.end(); ++i)
        step = steps.insert(step + 1, {calls[*i].call.algorithm, calls[*i].call.shape, {*i}});
    }
  });
}

}  // namespace

void plan_group(std::span<GroupedCall> calls,
                const std::function<const Algorithm*(const Call&)>& choose_batch,
                std::vector<GroupStep>& steps) {
  // send_recv is one family, and allocates nothing.
  if (!plan_one_family(calls, steps)) plan_any(calls, choose_batch, steps);
  for (std::size_t number = 0; number < steps.size(); ++number)
    for (const std::size_t i : steps[number].calls) calls[i].step = number;
}

}  // namespace plait
