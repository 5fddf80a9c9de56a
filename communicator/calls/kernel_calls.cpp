#include "communicator/calls/kernel_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "communicator/calls/call_checks.hpp"
#include "communicator/groups/open_group.hpp"
#include "communicator/observe/own_kernel_names.hpp"

namespace plait {
namespace {

template <class... Args>
[[noreturn]] void refuse(ErrorCode code, std::string_view caller, int rank,
                         fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format("{}: rank {}: {}", caller, rank,
                                fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace

/// On the host, threads of a block are only many if the user wants to test races among them.
LaunchShape KernelCalls::fitted(const KernelLaunch& launch) const {
  using enum ErrorCode;
  const int rank = own_.rank();
  const Topology& topology = own_.selector.topology();
  const auto most = KernelSetting::max_blocks;
  LaunchShape shape = launch.shape;
  if (launch.rows != KernelLaunch::Rows::none) {
    shape.blocks = most;
    shape = Registry::instance().own_rows->fitted(shape, {}, topology);
    if (launch.rows == KernelLaunch::Rows::in_half_of_the_blocks)
      shape.blocks = (shape.blocks + 1) / 2;
    shape.blocks = std::min(shape.blocks, launch.shape.blocks);
  }
  if (shape.blocks == 0 && launch.rows != KernelLaunch::Rows::none)
    refuse(unsupported, launch.caller, rank, "PLAIT_SCRATCH_BYTES leaves no memory for rows");
  if (shape.blocks == 0 || shape.blocks > most)
    refuse(invalid_argument, launch.caller, rank, "{} blocks, and a kernel has 1 to {}",
           shape.blocks, most);
  if (shape.threads == 0 || shape.threads > KernelSetting::max_threads)
    refuse(invalid_argument, launch.caller, rank, "{} threads per block, and a block has 1 to {}",
           shape.threads, KernelSetting::max_threads);
  if (topology.backend == BackendKind::host) shape.threads = topology.block_threads;
  return shape;
}

PreparedCall KernelCalls::prepare(const KernelLaunch& launch, NativeStream stream) {
  using enum ErrorCode;
  const int rank = own_.rank();
  PreparedCall prepared;
  if (own_.trace) prepared.begin = std::chrono::steady_clock::now();
  path_.check_again(launch.caller, stream, {});
  if (!launch.refusal.empty()) refuse(invalid_argument, launch.caller, rank, "{}", launch.refusal);
  if (own_.nodes.are_several())
    refuse(unsupported, launch.caller, rank, "own kernels need all ranks on one node");
  if (own_.size() > KernelSetting::most_ranks)
    refuse(unsupported, launch.caller, rank, "own kernels take up to {} ranks",
           KernelSetting::most_ranks);
  const KernelHandle kernel = launch.kernel(own_.backend->info().backend);
  if (kernel == nullptr)
    refuse(invalid_argument, launch.caller, rank,
           "{} was not compiled for {}, but only for the host", describe_own_kernel(launch.number),
           name_of(own_.backend->info().backend));
  const DeviceScope device(*own_.backend);
  if (!loaded_.contains(kernel)) {
    own_.backend->load(kernel);
    loaded_.insert(kernel);
  }
  auto work = std::make_shared<OwnKernelCall>();
  work->kernel = {kernel, {launch.args.begin(), launch.args.end()}};
  work->extents = launch.extents();
  for (const PeerWindow& viewed : launch.windows) {
    auto window = own_.heap.numbered(viewed.number);
    // Another communicator's memory may have the number, too.
    if (window == nullptr || window->is_stale() || viewed.window.own < window->local() ||
        viewed.window.own > window->local() + window->bytes())
      refuse(invalid_argument, launch.caller, rank,
             "a view of memory that this communicator does not have, or not any more");
    work->memory.push_back(std::move(window));
  }
  prepared.call = {.collective = Collective::barrier, .type = DataType::u8, .count = launch.number};
  prepared.buffers.own_kernel = &work->kernel;
  const Registry& registry = Registry::instance();
  prepared.algorithm =
      (launch.rows == KernelLaunch::Rows::none ? registry.own_kernels : registry.own_rows).get();
  prepared.shape = fitted(launch);
  prepared.own_kernel = std::move(work);
  if (own_.trace) prepared.end = std::chrono::steady_clock::now();
  return prepared;
}

void KernelCalls::agree(const std::optional<Error>& refusal, const KernelLaunch& launch) const {
  path_.agree_on_call(refusal, [&] {
    check_agreement(
        *own_.bootstrap,
        fmt::format("{} (number {:x}), {}", describe_own_kernel(launch.number), launch.number,
                    describe_extents(launch.rows != KernelLaunch::Rows::none, launch.extents())),
        ArrayOrder::unsaid);
  });
}

/// With PLAIT_CHECK=1 the ranks compare it at the group's end.
void KernelCalls::add_to(OpenGroup& group, const KernelLaunch& launch, NativeStream stream) {
  PreparedCall prepared;
  const auto look = [&] { prepared = prepare(launch, stream); };
  if (own_.settings.check_calls) {
    const std::optional<Error> refusal = refusal_of(look);
    KernelLaunch same = launch;  // without what is gone by then
    same.args = {};
    same.windows = {};
    same.caller = same.refusal = {};
    group.compare_at_end(path_, [this, refusal, same] { agree(refusal, same); });
    if (refusal) return;
  } else {
    look();
  }
  group.add_prepared(path_, prepared, stream);
}

void KernelCalls::call(const KernelLaunch& launch, StreamRef stream) {
  const auto refused = [] { return RefusedNumbers{.collective = true}; };
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open()) {
    const bool added = group.add(path_, [&] { add_to(group, launch, stream.native()); });
    if (!added || own_.settings.check_calls) group.refuse(path_, refused());
    return;
  }
  PlanOfOneCall plan(kept_);
  GroupedCall& only = plan->calls.emplace_back();
  path_.or_refuse(refused, [&] {
    const auto look = [&] { only.call = prepare(launch, stream.native()); };
    if (own_.settings.check_calls) agree(refusal_of(look), launch);
    else look();
  });
  only.stream = own_.backend->resolve(stream.native());
  path_.plan_steps(*plan);
  path_.submit(*plan, {});
}

}  // namespace plait
