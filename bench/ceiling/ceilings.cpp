#include "bench/ceiling/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>

#include "bench/ceiling/kernel.hpp"
#include "bench/memory.hpp"
#include "bench/timing.hpp"
#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"
#include "symm_mem/window.hpp"

namespace plait::bench {
namespace {

constexpr int repeats = 5;
/// Of flags or barriers, so that the start and the end of a repeat don't matter. Fewer where ranks
/// share processors and one of them takes milliseconds.
constexpr int most_rounds = 400, most_barriers = 50;
constexpr int signals = 1000, launches = 200, queries = 1000;
constexpr double flags_repeat_us = 10e3;

int rounds_within(double budget_us, double round_us, int least, int most) {
  return static_cast<int>(
      std::clamp(budget_us / std::max(round_us, 0.01), double{1} * least, double{1} * most));
}

struct Sample {
  int calls, repeats;
};
/// The median of the slowest rank.
double call_us(Communicator& comm, NativeStream stream, Timing timing, Sample sample,
               const std::function<void(NativeStream)>& call) {
  Options options;
  options.timing = timing;
  options.iterations = sample.calls;
  options.warm_up = 1;
  options.repeats = sample.repeats;
  return Timer(comm, stream, options).measure(call, 0).median();
}

/// What the flags' kernels need to end if a peer never answers: words in memory of the host and of
/// the device.
class Deadline {
 public:
  Deadline(Communicator& comm, NativeStream stream)
      : comm_(comm), claimed_(ordinary_memory(comm)(sizeof(std::uint32_t))) {
    Backend& backend = backend_of(comm);
    agree(comm.bootstrap(), "measuring flags", [&] {
      words_ =
          std::shared_ptr<OfHost>(static_cast<OfHost*>(backend.allocate_pinned(sizeof(OfHost))),
                                  [&backend](OfHost* words) { backend.deallocate_pinned(words); });
    });
    backend.fill(claimed_.data, 0, sizeof(std::uint32_t), stream);
  }

  /// Half of the bootstrap's timeout, because other ranks wait there until this kernel has ended.
  Watch watch() const {
    Watch watch;
    watch.abort = &words_->abort;
    watch.record = &words_->record;
    watch.claimed = reinterpret_cast<std::uint32_t*>(claimed_.data);
    watch.timeout_ns = static_cast<std::uint64_t>(timeout().count());
    watch.rank = comm_.rank();
    return watch;
  }
  /// After the stream has been waited for. Collective: all ranks throw if one's time was over.
  void throw_if_expired() const {
    agree(comm_.bootstrap(), "measuring flags", [&] {
      if (words_->record.state != 0)
        throw Error(
            ErrorCode::timeout,
            fmt::format("rank {} has waited for rank {} for {:.1f} s", comm_.rank(),
                        words_->record.peer, std::chrono::duration<double>(timeout()).count()));
    });
  }

 private:
  std::chrono::nanoseconds timeout() const { return comm_.bootstrap().timeout() / 2; }

  struct OfHost {
    std::uint32_t abort;
    DiagnosticRecord record;
  };
  Communicator& comm_;
  Allocation claimed_;
  std::shared_ptr<OfHost> words_;
};

/// The kernels between this rank and its neighbour.
class Pair {
 public:
  Pair(Communicator& comm, NativeStream stream)
      : comm_(comm),
        backend_(backend_of(comm)),
        stream_(stream),
        neighbour_(comm.rank() ^ 1),
        window_(comm.allocate_bytes(bytes())),
        local_(ordinary_memory(comm)(bytes())) {
    backend_.fill(local_.data, 1, bytes(), stream);  // keeps page faults out of the times
    backend_.fill(window_->local(), 0, bytes(), stream);
    comm.barrier(stream_ref(stream));
    comm.synchronize(stream_ref(stream));
  }

  /// More than caches hold. The processes of the host share its caches and its memory, so all pairs
  /// together get 64 MB there.
  std::size_t bytes() const {
    const auto pairs = static_cast<std::size_t>(comm_.size() / 2);
    return is_host() ? std::bit_floor((std::size_t{64} << 20) / pairs) : std::size_t{128} << 20;
  }
  double push_gbs() { return copy_gbs(local_.data, theirs()); }
  double pull_gbs() { return copy_gbs(theirs(), local_.data); }

  double signal_us() {
    std::function<void()> work;
    if (has_neighbour())
      work = [&] {
        launch({.others = reinterpret_cast<std::uint32_t*>(theirs()) + 1,
                .rounds = signals,
                .waits = false},
               {1, 1}, Watch{});
      };
    return median_milliseconds(comm_, stream_, repeats, work) * 1e3 / signals;
  }
  double launch_us() {
    return call_us(comm_, stream_, Timing::enqueue, {launches, repeats}, [&](NativeStream) {
      launch({}, {1, 1}, Watch{});
    });
  }
  double query_us() {
    const auto event = backend_.create_event(false);
    event->record(stream_);
    backend_.synchronize(stream_);
    return call_us(comm_, stream_, Timing::enqueue, {queries, repeats},
                   [&](NativeStream) { static_cast<void>(event->done()); });
  }
  double flag_us() {
    const Deadline deadline(comm_, stream_);
    // Before the barrier of the first repeat, so no flag of the neighbour is lost.
    backend_.fill(window_->local(), 0, sizeof(std::uint32_t), stream_);
    const double first = flags_us(deadline, 4, 1);
    return flags_us(deadline, rounds_within(flags_repeat_us, 2 * first, 4, most_rounds), repeats);
  }

 private:
  bool is_host() const { return comm_.backend_kind() == BackendKind::host; }
  bool has_neighbour() const { return neighbour_ < comm_.size(); }
  std::byte* theirs() const { return has_neighbour() ? window_->peer(neighbour_) : nullptr; }

  /// The even ranks copy.
  double copy_gbs(const std::byte* from, std::byte* to) {
    const int copies = is_host() ? 1 : 4;  // a launch takes longer on a GPU than on the host
    std::function<void()> work;
    if (has_neighbour() && comm_.rank() % 2 == 0)
      work = [&] {
        const DeviceFacts& facts = backend_.info().facts;
        for (int i = 0; i < copies; ++i)
          launch({.from = from, .to = to, .count = bytes() / sizeof(float)},
                 {facts.units, facts.block_threads}, Watch{});
      };
    const double ms = median_milliseconds(comm_, stream_, repeats, work);
    return static_cast<double>(bytes()) * copies / (ms * 1e6);
  }

  /// Microseconds of a flag in exchanges of `rounds` rounds.
  double flags_us(const Deadline& deadline, int rounds, int times) {
    std::function<void()> work;
    if (has_neighbour())
      work = [&] {
        launch({.own = reinterpret_cast<const std::uint32_t*>(window_->local()),
                .others = reinterpret_cast<std::uint32_t*>(theirs()),
                .first = exchanged_,
                .rounds = static_cast<std::uint32_t>(rounds),
                .peer = neighbour_,
                .begins = comm_.rank() % 2 == 0},
               {1, 1}, deadline.watch());
        exchanged_ += static_cast<std::uint32_t>(rounds);
      };
    const double ms = median_milliseconds(comm_, stream_, times, work);
    deadline.throw_if_expired();
    return ms * 1e3 / (2 * rounds);
  }

  void launch(const ceiling::Args& args, LaunchShape shape, const Watch& watch) {
    static_assert(sizeof(args) <= max_kernel_args);
    const KernelHandle kernel = backend_.find_kernel("ceiling", DataType::f32);
    if (!kernel) throw Error(ErrorCode::unsupported, "ceiling: no kernel for this target");
    backend_.launch(kernel, shape, &args, sizeof(args), watch, stream_);
  }

  Communicator& comm_;
  Backend& backend_;
  NativeStream stream_;
  int neighbour_;
  std::shared_ptr<Window> window_;
  Allocation local_;
  std::uint32_t exchanged_ = 0;
};

/// Replayed in a graph, so the host's time does not count.
double measure_barrier(Communicator& comm, NativeStream stream) {
  const auto time = [&](Sample sample) {
    return call_us(comm, stream, Timing::graph, sample,
                   [&](NativeStream on) { comm.barrier(stream_ref(on)); });
  };
  return time({rounds_within(flags_repeat_us, time({2, 1}), 2, most_barriers), repeats});
}

}  // namespace

Ceilings measure_ceilings(Communicator& comm, NativeStream stream, const Link& link) {
  Ceilings ceilings;
  if (comm.size() == 1) {
    ceilings.how = "none: a single rank has no peer";
    return ceilings;
  }
  ceilings.barrier_us = measure_barrier(comm, stream);
  const std::string barrier =
      fmt::format("barrier: calls in a graph; medians of {} repeats", repeats);
  if (comm.bootstrap().nodes() > 1) {
    ceilings.how = barrier + "; the ranks are on several nodes, so nothing else was measured";
    return ceilings;
  }
  if (link.gb_per_s > 0) ceilings.copy_engine_gbs = link.gb_per_s;
  Pair pair(comm, stream);
  ceilings.push_gbs = pair.push_gbs();
  ceilings.pull_gbs = pair.pull_gbs();
  ceilings.flag_us = pair.flag_us();
  ceilings.signal_us = pair.signal_us();
  ceilings.launch_us = pair.launch_us();
  ceilings.query_us = pair.query_us();
  ceilings.how = fmt::format(
      "push, pull: kernels that copy {} into, or out of, the neighbour's window, ranks 0->1, 2->3, "
      "... one way at a time; copy engine: as the link; flag: half a round trip between these "
      "ranks, slowest pair; signal: one of {} in a row; launch, query: the host's time, slowest "
      "rank; {}",
      format_bytes(pair.bytes()), signals, barrier);
  return ceilings;
}

}  // namespace plait::bench
