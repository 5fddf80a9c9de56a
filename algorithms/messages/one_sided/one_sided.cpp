#include <algorithm>
#include <limits>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/messages/one_sided/kernel.hpp"

namespace plait::one_sided {
namespace {

using Kind = Buffers::OneSided::Kind;

/// Its calls are planned and launched like ends of messages.
class OneSidedCalls final : public Algorithm {
 public:
  StaticName name() const override { return "one_sided"; }
  Collective collective() const override { return Collective::send_recv; }
  std::string_view summary() const override {
    return "put, get and signals: one rank's call alone, into or out of a peer's window";
  }
  Support supports(const Call&, const Topology&) const override {
    return Support::no("it serves put, get and signals, which need no name");
  }
  Resources resources(const Topology& topology) const override {
    const auto ranks = static_cast<std::size_t>(topology.ranks);
    return {.signals = ranks, .counters = 2 * ranks};
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
  /// Waits come last, so that two ranks that signal each other in groups both go on.
  void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const override {
    for (const bool awaits : {false, true})
      for (const BatchedCall& call : calls)
        if ((call.buffers->one_sided.kind == Kind::await) == awaits) launch(call, context);
  }

 private:
  void launch(const BatchedCall& one, LaunchContext& context) const {
    const Buffers& buffers = *one.buffers;
    const auto& [kind, signals, reader_handle] = buffers.one_sided;
    const Grant& grant = context.grant();
    const unsigned blocks = one.shape.blocks;
    const bool splits = kind == Kind::put && signals != 0 && blocks > 1;
    Args args{.from = static_cast<const std::byte*>(buffers.send),
              .to = static_cast<std::byte*>(buffers.recv),
              .bytes = one.call->count,
              .stripes = Partition::of(one.call->count, blocks, grain),
              .reader_handle = reader_handle,
              .awaited = kind == Kind::await ? signals : 0,
              .signals = kind != Kind::await && signals != 0 && !splits,
              .words = grant.signals,
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
  static DataType type_of(const Args& args) {
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
