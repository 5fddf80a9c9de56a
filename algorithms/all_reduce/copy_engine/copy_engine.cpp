#include "algorithms/all_reduce/copy_engine/kernel.hpp"
#include "algorithms/all_reduce/copy_engine/layout.hpp"
#include "algorithms/barrier/launch.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait::copy_engine {
namespace {

constexpr unsigned max_blocks = 1024;

/// One call on one rank, in the phases of kernel.hpp, which has the proof.
class Steps {
 public:
  Steps(const Call& call, const Buffers& buffers, LaunchShape shape, const Reduction& reduction,
        LaunchContext& context)
      : call_(call), buffers_(buffers), shape_(shape), reduction_(reduction), context_(context) {}

  void out_of_place() {
    const Landing landing = Landing::of(call_.bytes(), ranks());
    barrier();
    if (landing.slice != 0) exchange(landing);
    else pull(landing.tail);
    barrier();
  }

  void in_place() {
    // Many blocks that pull at once collide in the switch (twoshot.cpp has the measurement).
    if (ranks() > 2) shape_.blocks = std::max(1u, shape_.blocks / 4);
    const InPlace layout = InPlace::of(call_.bytes(), rank(), ranks());
    const auto chunk = [&](std::size_t index) {
      return offset(layout.chunks.at(index), layout.slice.begin);
    };
    barrier();
    pull(chunk(0));
    for (std::size_t i = 1; i < InPlace::chunk_count; ++i)
      context_.at_once([&] { pull(chunk(i)); }, [&] { gather_to_all(chunk(i - 1)); });
    gather_to_all(chunk(InPlace::chunk_count - 1));
    barrier();
  }

 private:
  int rank() const { return context_.rank(); }
  int ranks() const { return context_.ranks(); }
  int peer(int step) const { return rank_after(rank(), step, ranks()); }
  static Range offset(Range range, std::size_t by) { return {range.begin + by, range.end + by}; }

  /// Phases 2 to 5 of a call out of place.
  void exchange(const Landing& landing) {
    const Range all{0, landing.slice}, a = landing.chunks.at(0), b = landing.chunks.at(1);
    const int last = ranks() - 1;
    for (int step = 1; step < last; ++step) scatter(landing, peer(step), all);
    scatter(landing, peer(last), a);
    context_.at_once(
        [&] {
          barrier();
          sum_landed(landing, a);
          barrier();
        },
        [&] { scatter(landing, peer(last), b); });
    const std::size_t mine = landing.at(rank()).begin;
    context_.at_once(
        [&] {
          barrier();
          sum_landed(landing, b);
          pull(landing.tail);
          barrier();
        },
        [&] { gather(peer(1), offset(a, mine)); });
    gather(peer(1), offset(b, mine));
    for (int step = 2; step <= last; ++step) gather(peer(step), offset(all, mine));
  }

  /// Copies the peer's slice of this rank's input, or a chunk of it, to the place of this rank's
  /// slice in the peer's output.
  void scatter(const Landing& landing, int to, Range chunk) {
    context_.copy(buffers_.peer_recv(to, landing.at(rank()).begin + chunk.begin),
                  buffers_.send_window.own + landing.at(to).begin + chunk.begin, chunk.size());
  }

  /// Copies a part of the result to the same place in the peer's output.
  void gather(int to, Range bytes) {
    context_.copy(buffers_.peer_recv(to, bytes.begin), buffers_.recv_window.own + bytes.begin,
                  bytes.size());
  }
  void gather_to_all(Range bytes) {
    for (int step = 1; step < ranks(); ++step) gather(peer(step), bytes);
  }

  void sum_landed(const Landing& landing, Range chunk) {
    const std::size_t begin = landing.at(rank()).begin + chunk.begin;
    const WindowView landed{.own = buffers_.recv_window.own + begin,
                            .stride = static_cast<std::ptrdiff_t>(landing.slice),
                            .distances = nullptr,
                            .rank = rank()};
    sum(landed, buffers_.send_window.own + begin, landed.own, chunk.size());
  }
  /// Sums `bytes` of all inputs into the own output.
  void pull(Range bytes) {
    const WindowView terms = buffers_.send_window.at(bytes.begin);
    sum(terms, terms.own, buffers_.recv_window.own + bytes.begin, bytes.size());
  }

  void sum(const WindowView& terms, const std::byte* own, std::byte* result, std::size_t bytes) {
    if (bytes == 0) return;
    // Stripes are whole steps of the kernel's loop, so only the last block has a remainder.
    const std::size_t step = 8 * stripe_grain(shape_.threads);
    const LaunchShape shape{blocks_for(bytes, step, shape_.blocks), shape_.threads};
    const Args args{.rank = rank(),
                    .ranks = ranks(),
                    .terms = terms,
                    .own = own,
                    .result = result,
                    .stripes = Partition::of(bytes, shape.blocks, step),
                    .reduction = reduction_};
    context_.launch("copy_engine", call_.type, shape, args);
  }

  void barrier() {
    if (ranks() != 1)
      barrier::launch(context_, context_.grant(), barrier::shape(context_.topology()));
  }

  const Call& call_;
  const Buffers& buffers_;
  LaunchShape shape_;
  Reduction reduction_;
  LaunchContext& context_;
};

class CopyEngine final : public CollectiveAlgorithm {
 public:
  StaticName name() const override { return "copy_engine"; }
  std::string_view summary() const override {
    return "copy engines scatter and gather whole slices, a kernel sums: symmetric memory, no "
           "scratch, the largest messages";
  }

  Resources resources(const Topology& topology) const override {
    return barrier::resources(topology);
  }

  /// The shapes of the sums, which use local memory except for the pulls in place.
  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const override {
    const unsigned units = topology.units, threads = topology.block_threads;
    if (topology.backend == BackendKind::host) return {{.blocks = units, .threads = threads}};
    return {{units, threads}, {2 * units, threads}, {std::max(1u, units / 2), threads}};
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, max_blocks), shape.threads};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const int n = topology.ranks;
    const double outside = 4 * topology.launch_us + 2 * topology.signal_us;
    if (n == 1) return outside;
    return outside + 2 * n * topology.copy_us +
           2.0 * (n - 1) / n * static_cast<double>(call.bytes()) / topology.copy_bandwidth;
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    Steps steps(call, buffers, shape, reduction_of(call, context.topology()), context);
    // In place on one rank means in place on all, because symmetric buffers are at the same places
    // on every rank (Call::symmetric). With one rank there is nothing to scatter.
    if (buffers.send == buffers.recv || context.ranks() == 1) steps.in_place();
    else steps.out_of_place();
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    // Copies within host memory block the calling thread until the peers have come.
    if (!topology.peer_access) return Support::no("devices must reach each other's memory");
    return in_symmetric_memory(call);
  }
};

const AlgorithmRegistration<CopyEngine> registration;

}  // namespace
}  // namespace plait::copy_engine
