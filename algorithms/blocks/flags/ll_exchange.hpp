// Base class for descriptors whose kernel is an `LLKernel`, such as oneshot_ll and twoshot_ll: it
// launches `LLArgs` and `LLBatch`.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <span>
#include <vector>

#include "algorithms/blocks/flags/batch_plan.hpp"
#include "algorithms/blocks/flags/ll_algorithm.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

class LLExchangeAlgorithm : public LLAlgorithm {
 public:
  using LLAlgorithm::LLAlgorithm;

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const final {
    return shapes_for(parallel_units(units_of(call.bytes()), topology), topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const final {
    const Topology& topology = context.topology();
    const LLArgs args{.exchange = exchange(call, context),
                      .message = message(call, buffers, shape.blocks, grain(shape, topology))};
    context.launch(name(), call.type, shape, args);
  }

  void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const final {
    const std::size_t fitting = (context.most_work() - sizeof(LLWork<1>)) / sizeof(LLItem);
    const std::size_t most =
        std::min<std::size_t>(fitting, std::numeric_limits<std::uint16_t>::max());
    for (; calls.size() > most; calls = calls.subspan(most))
      launch_batch(calls.first(most), context);
    launch_batch(calls, context);
  }

 protected:
  /// The lanes and counters of `memory`.
  virtual const Grant& granted(const LaunchContext& context) const { return context.grant(); }
  /// The number of a message's units that threads work on at once.
  virtual std::size_t parallel_units(std::size_t units, const Topology& topology) const = 0;
  /// Stripes are multiples of this many units.
  virtual std::size_t grain(LaunchShape shape, const Topology& topology) const = 0;

 private:
  LLExchange exchange(const Call& call, const LaunchContext& context) const {
    const Grant& grant = granted(context);
    return {.scratch = grant.scratch,
            .layout = layout(context.topology()),
            .epochs = grant.counters,
            .reduction = reduction_of(call, context.topology()),
            .rank = context.rank(),
            .ranks = context.ranks(),
            .terms = terms_of(call.collective, context.rank(), context.ranks())};
  }
  LLMessage message(const Call& call, const Buffers& buffers, unsigned blocks,
                    std::size_t grain) const {
    return {.send = buffers.send,
            .recv = buffers.recv,
            .count = call.count,
            .stripes = Partition::of(units_of(call.bytes()), blocks, grain)};
  }

  /// A block works on a message with all its threads. So each message costs at least one pass of
  /// them, which is the overhead in the plan.
  void launch_batch(std::span<const BatchedCall> calls, LaunchContext& context) const {
    const Topology& topology = context.topology();
    std::vector<std::size_t> sizes;
    sizes.reserve(calls.size());
    std::size_t all = 0;
    for (const BatchedCall& call : calls) all += sizes.emplace_back(units_of(call.call->bytes()));
    LaunchShape shape = fitted(shapes_for(parallel_units(all, topology), topology).front(),
                               *calls.front().call, topology);
    // All blocks there are: many messages keep them busy even where one message of the same total
    // size would not.
    const unsigned blocks =
        topology.backend != BackendKind::host ? most_blocks(topology) : shape.blocks;
    const BatchPlan plan = plan_batch(sizes, blocks, grain(shape, topology));
    shape.blocks = plan.blocks;

    // An LLWork with an item for each message, and one more that ends the list.
    std::vector<std::byte> bytes(sizeof(LLWork<1>) + calls.size() * sizeof(LLItem));
    auto* work = reinterpret_cast<LLWork<1>*>(bytes.data());
    LLItem* item = work->items;
    unsigned blocks_begun = 0;
    for (const BatchPlan::Place& place : plan.places) {
      for (; blocks_begun < place.first_block + place.blocks; ++blocks_begun)
        work->first[blocks_begun] = static_cast<std::uint16_t>(item - work->items);
      const BatchedCall& call = calls[place.message];
      *item++ = {message(*call.call, *call.buffers, place.blocks, grain(shape, topology)),
                 place.first_block};
    }
    item->first_block = std::numeric_limits<std::uint32_t>::max();

    LLBatch args;
    args.exchange = exchange(*calls.front().call, context);
    args.work = reinterpret_cast<const LLWork<1>*>(
        context.place(bytes, std::as_writable_bytes(std::span(&args.few, 1)), calls.size()));
    context.launch_batch(name(), calls.front().call->type, shape, args);
  }
};

}  // namespace plait
