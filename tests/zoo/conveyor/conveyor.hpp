// The channels of a communicator in the hands of a test: an algorithm that is registered by the
// test and shares them with all others. It sends chunks as the test likes, and lets the test see
// and set their counters.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "plait/plait.hpp"
#include "support/ranks.hpp"
#include "zoo/conveyor/kernel.hpp"

namespace plait::test {

/// The chunks that one call sends; with `chunks` 0 it only says where the channels are.
struct Journey {
  std::uint32_t slots = 4, chunks = 0, lag = 1, call = 1;
  int sender = conveyor::all_ranks;
  unsigned blocks = 2;
};

/// One rank's channels.
class ChannelAccess {
 public:
  explicit ChannelAccess(Communicator& comm)
      : comm_(comm), backend_(backend_of(comm)), dummy_(comm.allocate<std::uint32_t>(1)) {
    wrong_ = allocate(max_blocks * max_threads);
    wraps_ = allocate(max_blocks);
    gate_ = static_cast<std::uint32_t*>(backend_.allocate_pinned(sizeof(std::uint32_t)));
    open_gate(~0u >> 1);
    travel({});
    comm_.synchronize();
    comm_.bootstrap().barrier();
  }
  ~ChannelAccess() {
    backend_.deallocate_pinned(gate_);
    backend_.deallocate(wraps_);
    backend_.deallocate(wrong_);
  }
  ChannelAccess(const ChannelAccess&) = delete;
  ChannelAccess& operator=(const ChannelAccess&) = delete;

  /// Enqueues a call. Collective.
  void travel(const Journey& journey);

  /// Lets this rank's receivers take so many chunks of a call.
  void open_gate(std::uint32_t chunks) {
    std::atomic_ref(*gate_).store(chunks, std::memory_order_release);
  }

  /// Makes all channels look as if they had seen `age` chunks. Collective; while no call runs.
  void make_old(std::uint32_t age) {
    std::vector<std::uint32_t> old(std::max(resources_.counters, resources_.signals), age);
    write(grant_.counters, old.data(), resources_.counters);
    write(grant_.signals.own, old.data(), resources_.signals);
    comm_.bootstrap().barrier();
  }

  // While no call runs.
  std::vector<std::uint32_t> wrong() {
    return read<std::uint32_t>(wrong_, max_blocks * max_threads);
  }
  std::vector<std::uint32_t> wraps() { return read<std::uint32_t>(wraps_, max_blocks); }
  /// This rank's counts of all channels, in the order of `Channels::index`.
  std::vector<ChannelState> states() {
    return read<ChannelState>(grant_.counters,
                              resources_.counters * sizeof(std::uint32_t) / sizeof(ChannelState));
  }
  std::size_t channel_bytes() const { return std::size_t{channels_.slot_bytes} * channels_.slots; }
  std::size_t index(unsigned block, unsigned way, int peer) const {
    return channels_.index(block, way, channels_.rank, peer);
  }

  /// The number of chunks that a peer says it has sent. Only the host target can read it while a
  /// call runs.
  std::uint32_t published(unsigned block, unsigned way, int peer) const {
    auto* const signals =
        reinterpret_cast<ChannelSignals*>(channels_.signal_memory.own) + index(block, way, peer);
    return std::atomic_ref(signals->published).load(std::memory_order_acquire);
  }

 private:
  friend class ConveyorAlgorithm;
  static constexpr std::size_t max_blocks = 16, max_threads = 256;

  std::uint32_t* allocate(std::size_t words) {
    auto* const memory =
        static_cast<std::uint32_t*>(backend_.allocate(words * sizeof(std::uint32_t)));
    backend_.fill(memory, 0, words * sizeof(std::uint32_t), nullptr);
    backend_.synchronize(nullptr);
    return memory;
  }
  void write(void* to, const std::uint32_t* from, std::size_t words) {
    backend_.copy(to, from, words * sizeof(std::uint32_t), nullptr);
    backend_.synchronize(nullptr);
  }
  template <class T>
  std::vector<T> read(const void* from, std::size_t count) {
    std::vector<T> values(count);
    backend_.copy(values.data(), from, count * sizeof(T), nullptr);
    backend_.synchronize(nullptr);
    return values;
  }

  Communicator& comm_;
  Backend& backend_;
  Buffer<std::uint32_t> dummy_;
  std::uint32_t *wrong_ = nullptr, *wraps_ = nullptr, *gate_ = nullptr;
  // From the last call.
  Journey journey_;
  Grant grant_;
  Resources resources_;
  Channels channels_{};
};

class ConveyorAlgorithm final : public ChannelAlgorithm {
 public:
  StaticName name() const override { return "conveyor"; }
  std::string_view summary() const override { return "chunks of a test"; }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const override {
    return {{.blocks = 1,
             .threads = topology.backend == BackendKind::host ? topology.block_threads : 64}};
  }
  double estimate(const Call&, const Topology&) const override { return 1e9; }

  void enqueue(const Call& call, const Buffers&, LaunchShape shape,
               LaunchContext& context) const override {
    ChannelAccess& access = *current();
    const Journey& journey = access.journey_;
    access.grant_ = context.shared();
    access.resources_ = shared(context.topology()).resources;
    access.channels_ = channels(context, journey.slots);
    if (journey.chunks == 0) return;
    const conveyor::Args args{.channels = access.channels_,
                              .wrong = access.wrong_,
                              .wraps = access.wraps_,
                              .gate = access.gate_,
                              .chunks = journey.chunks,
                              .lag = journey.lag,
                              .call = journey.call,
                              .sender = journey.sender};
    context.launch(name(), call.type, shape, args);
  }

  /// The channels of the call that the thread makes.
  static ChannelAccess*& current() {
    static thread_local ChannelAccess* access = nullptr;
    return access;
  }
};

inline void ChannelAccess::travel(const Journey& journey) {
  journey_ = journey;
  ConveyorAlgorithm::current() = this;
  comm_.all_reduce(dummy_.data(), dummy_.data(), 1, DataType::u32, ReduceOp::sum, {},
                   {.algorithm = "conveyor", .blocks = journey.blocks});
  ConveyorAlgorithm::current() = nullptr;
}

}  // namespace plait::test
