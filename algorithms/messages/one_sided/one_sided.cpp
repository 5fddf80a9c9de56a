#include <algorithm>
#include <limits>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/messages/one_sided/kernel.hpp"
#include "algorithms/messages/one_sided/window_requests_kernel.hpp"

namespace plait::one_sided {
namespace {

using Kind = Buffers::OneSided::Kind;

/// Its calls are planned and launched like ends of messages.
class OneSidedCalls final : public ChannelAlgorithm {
 public:
  OneSidedCalls() : ChannelAlgorithm(Collective::send_recv) {}
  StaticName name() const override { return "one_sided"; }
  std::string_view summary() const override {
    return "put, get and signals: one rank's call alone, into or out of a peer's window";
  }
  Resources resources(const Topology& topology) const override {
    const auto ranks = static_cast<std::size_t>(topology.ranks);
    return {.signals = ranks, .counters = (topology.nodes == 1 ? 2 : 4) * ranks};
  }
  SharedResources shared(const Topology& topology) const override {
    return topology.nodes == 1 ? SharedResources{} : ChannelAlgorithm::shared(topology);
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    constexpr std::size_t of_a_block = std::size_t{64} << 10;
    const auto wanted = static_cast<unsigned>(
        std::min<std::size_t>((call.count + of_a_block - 1) / of_a_block, topology.units));
    return {{std::max(wanted, 1u), topology.block_threads}};
  }
  double estimate(const Call&, const Topology&) const override {
    return std::numeric_limits<double>::infinity();
  }
  bool batches(const Topology&) const override { return true; }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const BatchedCall one{&call, &buffers, this, shape};
    enqueue_batch({&one, 1}, context);
  }
  /// Waits come last, so that two ranks that signal each other in groups both go on. Before them
  /// the bytes of all puts to other nodes arrive, together.
  void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const override {
    const bool alone = calls.size() == 1;
    for (const BatchedCall& call : calls) {
      const auto& of = call.buffers->one_sided;
      if (of.kind == Kind::await) continue;
      if (of.is_elsewhere) ask(call, true, alone && of.kind == Kind::put, context);
      else launch(call, context);
    }
    if (!alone && context.nodes() != nullptr) settle(calls, context);
    for (const BatchedCall& call : calls)
      if (call.buffers->one_sided.kind == Kind::await) launch(call, context);
  }

 protected:
  Support supports_call(const Call&, const Topology&) const override {
    return Support::no("it serves put, get and signals, which need no name");
  }

 private:
  /// Waits for the answers of all peers on other nodes that were put to.
  static void settle(std::span<const BatchedCall> calls, LaunchContext& context) {
    std::vector<bool> settled(static_cast<std::size_t>(context.ranks()));
    for (const BatchedCall& call : calls) {
      const auto peer = static_cast<std::size_t>(call.buffers->peer);
      const auto& of = call.buffers->one_sided;
      if (!of.is_elsewhere || of.kind != Kind::put || settled[peer]) continue;
      settled[peer] = true;
      ask(call, false, true, context);
    }
  }
  /// `moves`: else the launch only settles earlier puts.
  static void ask(const BatchedCall& one, bool moves, bool settles, LaunchContext& context) {
    const auto& of = one.buffers->one_sided;
    std::uint32_t* const asked = context.grant().counters + 2 * context.ranks();
    const window_requests::Args args{.channels = channels(context, WindowRequest::slots),
                                     .from = static_cast<const std::byte*>(one.buffers->send),
                                     .to = static_cast<std::byte*>(one.buffers->recv),
                                     .bytes = moves ? one.call->count : 0,
                                     .window = of.window,
                                     .offset = of.offset,
                                     .asked = asked,
                                     .answered = asked + context.ranks(),
                                     .signals = moves ? of.signals : 0,
                                     .peer = one.buffers->peer,
                                     .settles = settles};
    context.launch("window_requests", type_of(args), {1, moves ? one.shape.threads : 1}, args);
  }

  void launch(const BatchedCall& one, LaunchContext& context) const {
    const Buffers& buffers = *one.buffers;
    const auto& [kind, signals, reader_handle, is_elsewhere, window, offset] = buffers.one_sided;
    const Grant& grant = context.grant();
    const unsigned blocks = one.shape.blocks;
    const bool splits = kind == Kind::put && signals != 0 && blocks > 1;
    // Those of other nodes are counted elsewhere.
    const WindowView words =
        is_elsewhere ? WindowView{.own = reinterpret_cast<std::byte*>(context.nodes()->signals)}
                     : grant.signals;
    Args args{.from = static_cast<const std::byte*>(buffers.send),
              .to = static_cast<std::byte*>(buffers.recv),
              .bytes = one.call->count,
              .stripes = Partition::of(one.call->count, blocks, grain),
              .reader_handle = reader_handle,
              .awaited = kind == Kind::await ? signals : 0,
              .signals = kind != Kind::await && signals != 0 && !splits,
              .words = words,
              .sent = grant.counters,
              .seen = grant.counters + context.ranks(),
              .rank = context.rank(),
              .peer = buffers.peer};
    context.launch(name(), type_of(args), one.shape, args);
    if (!splits) return;
    args.bytes = 0;
    args.signals = true;
    context.launch(name(), DataType::u64, {1, 1}, args);
  }
  /// The largest element that both addresses and the length are multiples of.
  template <class Moved>
  static DataType type_of(const Moved& args) {
    const auto all = reinterpret_cast<std::uintptr_t>(args.from) |
                     reinterpret_cast<std::uintptr_t>(args.to) | args.bytes;
    return move_type(all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1);
  }

  static constexpr std::size_t grain = 4096;
};

const bool registered = [] {
  Registry::instance().one_sided = std::make_unique<OneSidedCalls>();
  return true;
}();

}  // namespace
}  // namespace plait::one_sided
