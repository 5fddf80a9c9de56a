#include "communicator/calibration/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "algorithms/contract/collectives.hpp"
#include "bootstrap/agreement.hpp"
#include "plait/error.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr std::size_t most_candidates = 32;
constexpr int repeats = 4;
/// A repeat lasts about that long, if it can, because ranks begin at different moments. It launches
/// a graph several times, since calls cost more to capture than to replay.
constexpr double repeat_us = 120, repeat_on_host_us = 40, graph_us = 30;
constexpr int most_calls = 8, most_rounds = 4;
/// An algorithm is measured if one call takes at most this many times as long as the fastest one's,
/// and these microseconds more, because a single time is not exact.
constexpr double first_factor = 3, first_more_us = 15;
/// An algorithm whose call takes twice as long as that, and longer than this, is not tried at
/// larger sizes. Algorithms that are slow for small messages alone stay below it.
constexpr double hopeless_us = 300;
/// An algorithm that may be the fastest between two sizes takes less than this times the fastest at
/// one of them.
constexpr double near_factor = 1.5;
/// An algorithm that takes less than this times the fastest counts as equally fast.
constexpr double close_factor = 1.15;

struct Sizes {
  std::size_t least, most;
};
constexpr std::size_t step = 4;
constexpr Sizes sizes_of(BackendKind backend) {
  return backend == BackendKind::host ? Sizes{128, 2 << 20} : Sizes{512, 32 << 20};
}

/// A kind of calls that is measured as a whole.
struct Kind {
  Collective collective;
  bool symmetric, in_place;
};

struct Task {
  Call call;
  CallBuffers buffers;
};

/// Of one kind of memory.
struct Buffers {
  std::byte *send = nullptr, *recv = nullptr;
};

class Measuring {
 public:
  Measuring(Communicator& comm, const Topology& topology)
      : comm_(comm),
        backend_(backend_of(comm)),
        topology_(topology),
        sizes_(sizes_of(topology.backend)),
        stream_(comm.create_stream()),
        begin_(backend_.create_event()),
        end_(backend_.create_event()) {
    allocate();
  }

  std::vector<MeasuredCall> run() {
    for (int c = 0; c < collective_count; ++c) {
      const auto collective = static_cast<Collective>(c);
      for (const Kind& kind : {Kind{collective, false, false}, Kind{collective, false, true},
                               Kind{collective, true, false}, Kind{collective, true, true}})
        if (is_worth_it(kind) && !measure(kind)) return std::move(measured_);
    }
    return std::move(measured_);
  }

 private:
  struct Candidate {
    const Algorithm* algorithm;
    double microseconds = 0;
  };
  using Candidates = std::vector<Candidate>;

  void allocate() {
    const std::size_t bytes = sizes_.most;
    window_ = comm_.allocate_bytes(2 * bytes);
    agree(comm_.bootstrap(), "calibration: allocating memory", [&] {
      const DeviceScope device(backend_);
      ordinary_memory_ = std::shared_ptr<void>(backend_.allocate(2 * bytes),
                                               [&](void* memory) { backend_.deallocate(memory); });
      backend_.zero(ordinary_memory_.get(), 2 * bytes);
    });
    symmetric_ = {window_->local(), window_->local() + bytes};
    auto* const memory = static_cast<std::byte*>(ordinary_memory_.get());
    ordinary_ = {memory, memory + bytes};
  }

  Task task_of(const Kind& kind, std::size_t bytes) const {
    Call call{.collective = kind.collective,
              .type = is_host() ? DataType::f32 : DataType::bf16,
              .symmetric = kind.symmetric,
              .in_place = kind.symmetric && kind.in_place && !facts_of(kind.collective).rooted,
              .parts = parts_of(kind.collective, topology_.ranks)};
    call.count = count_within(call, bytes);
    const Buffers& buffers = kind.symmetric ? symmetric_ : ordinary_;
    return {call, buffers_of(call, kind.in_place, buffers.send, buffers.recv, comm_.rank())};
  }

  Candidates candidates(const Call& call) const {
    Candidates all;
    for (const auto& algorithm : Registry::instance().all())
      if (algorithm->collective() == call.collective && can_serve(*algorithm, call, topology_) &&
          std::isfinite(algorithm->estimate(call, topology_)) && all.size() < most_candidates)
        all.push_back({algorithm.get()});
    return all;
  }

  bool is_worth_it(const Kind& kind) const {
    if (kind.in_place && !has_in_place(kind.collective)) return false;
    for (std::size_t bytes = sizes_.least; bytes <= sizes_.most; bytes *= step)
      if (candidates(task_of(kind, bytes).call).size() > 1) return true;
    return false;
  }

  /// False if the time is over.
  bool measure(const Kind& kind) {
    std::map<std::size_t, Candidates> sizes;
    std::set<const Algorithm*> too_slow;
    for (std::size_t bytes = sizes_.least; bytes <= sizes_.most; bytes *= step) {
      const Task task = task_of(kind, bytes);
      Candidates those = candidates(task.call);
      std::erase_if(those, [&](const Candidate& c) { return too_slow.contains(c.algorithm); });
      time_each(those, [&](const Candidate& c) { return first(task, *c.algorithm); });
      std::erase_if(those, [](const Candidate& c) { return !std::isfinite(c.microseconds); });
      if (those.empty()) return true;  // the kind is left out
      const double limit = first_factor * fastest(those).microseconds + first_more_us;
      for (const Candidate& candidate : those)
        if (candidate.microseconds > std::max(2 * limit, hopeless_us))
          too_slow.insert(candidate.algorithm);
      std::erase_if(those, [&](const Candidate& c) { return c.microseconds > limit; });
      if (!time_exactly(task, those)) return false;
      sizes[bytes] = those;
    }
    if (!measure_between(kind, sizes)) return false;
    for (const auto& [bytes, those] : sizes)
      for (const Candidate& candidate : those)
        measured_.push_back({.call = task_of(kind, bytes).call,
                             .in_place = kind.in_place,
                             .algorithm = std::string(candidate.algorithm->name()),
                             .microseconds = candidate.microseconds});
    return true;
  }

  /// Where the fastest algorithm between two sizes is not clear, adds the size in their middle,
  /// because times don't always follow a line from one to the other. Only algorithms that were near
  /// the fastest at one of the two take part.
  bool measure_between(const Kind& kind, std::map<std::size_t, Candidates>& sizes) {
    std::map<std::size_t, Candidates> between;
    for (auto low = sizes.begin(), high = std::next(low); high != sizes.end(); ++low, ++high) {
      if (!is_close(low->second, high->second)) continue;
      const std::size_t bytes = low->first * 2;
      Candidates those;
      for (const Candidates* side : {&low->second, &high->second})
        for (const Candidate& c : *side)
          if (c.microseconds < near_factor * fastest(*side).microseconds &&
              std::none_of(those.begin(), those.end(),
                           [&](const Candidate& o) { return o.algorithm == c.algorithm; }))
            those.push_back(c);
      if (!time_exactly(task_of(kind, bytes), those)) return false;
      between[bytes] = std::move(those);
    }
    sizes.merge(between);
    return true;
  }

  /// Whether two sizes have different fastest algorithms, or one has another that is as fast.
  static bool is_close(const Candidates& low, const Candidates& high) {
    const Algorithm* const first = fastest(low).algorithm;
    if (first != fastest(high).algorithm) return true;
    for (const Candidates* side : {&low, &high})
      for (const Candidate& c : *side)
        if (c.algorithm != first && c.microseconds < close_factor * fastest(*side).microseconds)
          return true;
    return false;
  }

  /// Replaces the candidates' times, which are those of similar calls, by exact ones.
  bool time_exactly(const Task& task, Candidates& those) {
    const double expected = std::max(fastest(those).microseconds, 0.01);
    const auto as_many = [](double of, int most) {
      return static_cast<int>(std::clamp(of, 1.0, static_cast<double>(most)));
    };
    const int calls = as_many(graph_us / expected, most_calls),
              rounds = as_many((is_host() ? repeat_on_host_us : repeat_us) / (expected * calls),
                               most_rounds);
    return time_each(those,
                     [&](const Candidate& c) { return many(task, *c.algorithm, calls, rounds); });
  }

  static const Candidate& fastest(const Candidates& those) {
    return *std::min_element(those.begin(), those.end(), [](const auto& a, const auto& b) {
      return a.microseconds < b.microseconds;
    });
  }

  /// Times each candidate. Its time is that of the slowest rank. False on all ranks if the time is
  /// over.
  template <class Time>
  bool time_each(Candidates& those, Time time) {
    struct OfRank {
      std::array<double, most_candidates> microseconds;
      double passed;
    } mine{};
    for (std::size_t i = 0; i < those.size(); ++i) mine.microseconds[i] = time(those[i]);
    mine.passed = microseconds_since(start_);
    const auto all = comm_.bootstrap().all_gather(mine);
    for (std::size_t i = 0; i < those.size(); ++i) {
      those[i].microseconds = 0;
      for (const OfRank& rank : all)
        those[i].microseconds = std::max(those[i].microseconds, rank.microseconds[i]);
    }
    return all[0].passed < measuring_limit_us;
  }

  void enqueue(const Task& task, const Algorithm& algorithm) const {
    comm_.enqueue(task.call, task.buffers.send, task.buffers.recv, stream_,
                  {.algorithm = std::string(algorithm.name())});
  }

  bool is_host() const { return topology_.backend == BackendKind::host; }

  void line_up() const {
    comm_.barrier(stream_);
    if (is_host()) comm_.synchronize(stream_);
  }

  /// One call, after one that finds its memory. Infinite if it is refused, on all ranks alike.
  double first(const Task& task, const Algorithm& algorithm) const {
    const auto work = [&] { enqueue(task, algorithm); };
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_argument)
        throw;
      return std::numeric_limits<double>::infinity();
    }
    comm_.synchronize(stream_);
    return timed(work);
  }
  /// The least mean over `rounds` times `calls` calls, after one call.
  double many(const Task& task, const Algorithm& algorithm, int calls, int rounds) const {
    std::function<void()> round = [&] {
      for (int i = 0; i < calls; ++i) {
        enqueue(task, algorithm);
        if (is_host()) comm_.synchronize(stream_);
      }
    };
    enqueue(task, algorithm);  // a capture must not be the first to find the memory
    std::unique_ptr<Graph> graph;
    if (!is_host()) {
      const DeviceScope device(backend_);
      backend_.begin_capture(stream_.native());
      round();
      graph = backend_.end_capture(stream_.native());
      graph->launch(stream_.native());  // uploads it
      round = [&] { graph->launch(stream_.native()); };
    }
    double least = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < repeats; ++repeat)
      least = std::min(least, timed([&] {
                         for (int i = 0; i < rounds; ++i) round();
                       }));
    return least / (rounds * calls);
  }

  double timed(const std::function<void()>& work) const {
    line_up();
    if (is_host()) {
      const auto start = Clock::now();
      work();
      comm_.synchronize(stream_);
      return microseconds_since(start);
    }
    const DeviceScope device(backend_);
    begin_->record(stream_.native());
    work();
    end_->record(stream_.native());
    comm_.synchronize(stream_);
    return end_->milliseconds_since(*begin_) * 1e3;
  }

  Communicator& comm_;
  Backend& backend_;
  const Topology& topology_;
  const Sizes sizes_;
  const Clock::time_point start_ = Clock::now();
  Stream stream_;
  std::shared_ptr<Window> window_;
  std::shared_ptr<void> ordinary_memory_;
  Buffers symmetric_, ordinary_;
  std::unique_ptr<Event> begin_, end_;
  std::vector<MeasuredCall> measured_;
};

}  // namespace

std::vector<MeasuredCall> measure_algorithms(Communicator& comm, const Topology& topology) {
  return Measuring(comm, topology).run();
}

}  // namespace plait
