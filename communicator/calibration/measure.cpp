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

constexpr std::size_t most_candidates = 96;
/// A repeat of a calibration lasts about that long, if it can, because ranks begin at different
/// moments. It launches a graph several times, since calls cost more to capture than to replay.
constexpr double repeat_us = 120, repeat_on_host_us = 40, graph_us = 30;
constexpr int most_calls = 8, most_rounds = 100;
/// An algorithm is measured if one call takes at most this many times as long as the fastest one's,
/// and these microseconds more, because a single time is not exact.
constexpr double first_factor = 3, first_more_us = 15;
/// An algorithm whose call takes twice as long as that, and longer than this, is not tried at
/// larger sizes. Algorithms that are slow for small messages alone stay below it.
constexpr double hopeless_us = 300;
/// An algorithm that may be the fastest between two sizes, or in another shape, takes less than this
/// times the fastest.
constexpr double near_factor = 1.5;
/// An algorithm that takes less than this times the fastest counts as equally fast.
constexpr double close_factor = 1.15;
/// The part of a kind's time that is for the sizes of the plan. The rest is for those between them.
constexpr double first_part = 0.6;
constexpr double never = std::numeric_limits<double>::infinity();

struct Candidate {
  const Algorithm* algorithm;
  unsigned shape = 0;  // its number
  double microseconds = 0;
  bool is_of(const Candidate& other) const {
    return algorithm == other.algorithm && shape == other.shape;
  }
};
using Candidates = std::vector<Candidate>;

struct Task {
  Call call;
  bool in_place;
  CallBuffers buffers;
};
using Tasks = std::vector<Task>;  // one per placement

class Measuring {
 public:
  Measuring(Communicator& comm, const Topology& topology, const MeasuringPlan& plan)
      : comm_(comm),
        backend_(backend_of(comm)),
        topology_(topology),
        plan_(plan),
        stream_(comm.create_stream()),
        symmetric_(plan.symmetric_buffers),
        ordinary_(plan.ordinary_buffers),
        begin_(backend_.create_event()),
        end_(backend_.create_event()) {
    allocate();
  }

  std::vector<MeasuredCall> run() {
    std::vector<MeasuredKind> kinds = all_kinds();
    std::erase_if(kinds, [this](const MeasuredKind& kind) { return !is_worth_it(kind); });
    kinds_ = kinds.size();
    for (done_ = 0; done_ < kinds_; ++done_) {
      // The time that is left is shared out evenly.
      until_ = passed_ + (plan_.limit_us - passed_) / static_cast<double>(kinds_ - done_);
      if (!measure(kinds[done_])) break;
    }
    return std::move(measured_);
  }

 private:
  using Sizes = std::map<std::size_t, Candidates>;

  void allocate() {
    const std::size_t bytes = plan_.sizes.back();
    if (symmetric_.send == nullptr && plan_.symmetric) {
      window_ = comm_.allocate_bytes(2 * bytes);
      symmetric_ = {window_->local(), window_->local() + bytes};
    }
    if (ordinary_.send != nullptr || !plan_.ordinary) return;
    agree(comm_.bootstrap(), "calibration: allocating memory", [&] {
      const DeviceScope device(backend_);
      ordinary_memory_ = std::shared_ptr<void>(backend_.allocate(2 * bytes),
                                               [&](void* memory) { backend_.deallocate(memory); });
      backend_.zero(ordinary_memory_.get(), 2 * bytes);
    });
    auto* const memory = static_cast<std::byte*>(ordinary_memory_.get());
    ordinary_ = {memory, memory + bytes};
  }

  std::vector<MeasuredKind> all_kinds() const {
    std::vector<Collective> collectives = plan_.collectives;
    if (collectives.empty())
      for (int c = 0; c < collective_count; ++c) collectives.push_back(static_cast<Collective>(c));
    std::vector<DataType> types = plan_.types;
    if (types.empty()) types.push_back(is_host() ? DataType::f32 : DataType::bf16);
    std::vector<MeasuredKind> kinds;
    for (const Collective collective : collectives)
      for (const DataType type : types)
        for (const bool symmetric : {false, true}) {
          if (collective == Collective::barrier || !(symmetric ? plan_.symmetric : plan_.ordinary))
            continue;
          Call call{.collective = collective,
                    .type = type,
                    .symmetric = symmetric,
                    .parts = parts_of(collective, topology_.ranks)};
          if (!has_in_place(collective)) {
            kinds.push_back({call, {false}});
          } else if (!symmetric || facts_of(collective).rooted) {
            kinds.push_back({call, {false, true}});
          } else {
            kinds.push_back({call, {false}});
            call.in_place = true;
            kinds.push_back({call, {true}});
          }
        }
    return kinds;
  }

  Tasks tasks_of(const MeasuredKind& kind, std::size_t bytes) const {
    Call call = kind.call;
    call.count = count_within(call, bytes);
    const MeasuringPlan::Buffers& buffers = call.symmetric ? symmetric_ : ordinary_;
    Tasks tasks;
    for (const bool in_place : kind.placements)
      tasks.push_back(
          {call, in_place, buffers_of(call, in_place, buffers.send, buffers.recv, comm_.rank())});
    return tasks;
  }

  Candidates candidates(const Call& call) const {
    Candidates all;
    for (const auto& algorithm : Registry::instance().all())
      if (algorithm->collective() == call.collective && can_serve(*algorithm, call, topology_) &&
          std::isfinite(algorithm->estimate(call, topology_)) && all.size() < most_candidates)
        all.push_back({algorithm.get()});
    return all;
  }

  bool is_worth_it(const MeasuredKind& kind) const {
    return std::any_of(plan_.sizes.begin(), plan_.sizes.end(), [&](std::size_t bytes) {
      return candidates(tasks_of(kind, bytes).front().call).size() > 1;
    });
  }

  /// False if the time is over.
  bool measure(const MeasuredKind& kind) {
    Sizes sizes;
    std::set<const Algorithm*> too_slow;
    wrong_.clear();
    for (std::size_t i = 0; i < plan_.sizes.size(); ++i) {
      const std::size_t bytes = plan_.sizes[i];
      const Tasks tasks = tasks_of(kind, bytes);
      Candidates those = candidates(tasks.front().call);
      std::erase_if(those, [&](const Candidate& c) { return too_slow.contains(c.algorithm); });
      take_first(tasks, those);
      if (those.empty()) return true;  // the kind is left out
      const double limit = first_factor * fastest(those).microseconds + first_more_us;
      for (const Candidate& candidate : those)
        if (candidate.microseconds > std::max(2 * limit, hopeless_us))
          too_slow.insert(candidate.algorithm);
      Candidates slow;
      std::copy_if(those.begin(), those.end(), std::back_inserter(slow),
                   [&](const Candidate& c) { return c.microseconds > limit; });
      std::erase_if(those, [&](const Candidate& c) { return c.microseconds > limit; });
      share_ = (until_ - passed_) * (plan_.halvings > 0 ? first_part : 1) /
               static_cast<double>(plan_.sizes.size() - i);
      time_exactly(tasks, those);
      those.insert(those.end(), slow.begin(), slow.end());
      sizes[bytes] = std::move(those);
      say(kind, bytes, static_cast<double>(i + 1) / static_cast<double>(plan_.sizes.size()));
      if (passed_ >= plan_.limit_us) return false;
    }
    for (int i = 0; i < plan_.halvings && passed_ < until_; ++i) measure_between(kind, sizes);
    for (const auto& [bytes, those] : sizes)
      for (const Candidate& candidate : those)
        if (!is_wrong(candidate))
          measured_.push_back({.call = tasks_of(kind, bytes).front().call,
                               .algorithm = std::string(candidate.algorithm->name()),
                               .microseconds = candidate.microseconds,
                               .shape = candidate.shape});
    return passed_ < plan_.limit_us;
  }

  /// Where the fastest algorithm between two sizes is not clear, adds the size in their middle,
  /// because times don't always follow a line from one to the other. Only algorithms that were near
  /// the fastest at one of the two take part.
  void measure_between(const MeasuredKind& kind, Sizes& sizes) {
    Sizes between;
    std::size_t gaps = sizes.size() - 1;
    for (auto low = sizes.begin(), high = std::next(low); high != sizes.end();
         ++low, ++high, --gaps) {
      const std::size_t bytes = middle(low->first, high->first);
      if (!is_close(low->second, high->second) || bytes == low->first) continue;
      Candidates those;
      for (const Candidates* side : {&low->second, &high->second})
        for (const Candidate& c : *side)
          if (c.shape == 0 && c.microseconds < near_factor * fastest(*side).microseconds &&
              std::none_of(those.begin(), those.end(),
                           [&](const Candidate& o) { return o.algorithm == c.algorithm; }))
            those.push_back(c);
      const Tasks tasks = tasks_of(kind, bytes);
      std::erase_if(those, [&](const Candidate& c) {
        return !can_serve(*c.algorithm, tasks.front().call, topology_);
      });
      take_first(tasks, those);
      if (those.empty()) continue;
      share_ = (until_ - passed_) / static_cast<double>(gaps);
      time_exactly(tasks, those);
      between[bytes] = std::move(those);
      say(kind, bytes, 1);
      if (passed_ >= until_) break;
    }
    sizes.merge(between);
  }

  /// The size in the middle on a logarithmic scale, to three binary digits.
  static std::size_t middle(std::size_t low, std::size_t high) {
    const double exact = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
    const std::size_t grain = std::size_t{1} << std::max(std::ilogb(exact) - 3, 0);
    return std::max(low, static_cast<std::size_t>(exact) / grain * grain);
  }

  void say(const MeasuredKind& kind, std::size_t bytes, double part) const {
    if (plan_.progress)
      plan_.progress(kind, bytes,
                     (static_cast<double>(done_) + part) / static_cast<double>(kinds_));
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

  bool is_wrong(const Candidate& candidate) const {
    return std::any_of(wrong_.begin(), wrong_.end(),
                       [&](const Candidate& wrong) { return wrong.is_of(candidate); });
  }

  /// Takes away those that don't serve the call, and those whose results are wrong.
  void take_right(const Tasks& tasks, Candidates& those) {
    std::erase_if(those, [&](const Candidate& c) { return is_wrong(c); });
    if (!plan_.is_right) return;
    std::erase_if(those, [&](const Candidate& c) {
      const bool is_right = std::all_of(tasks.begin(), tasks.end(), [&](const Task& task) {
        return plan_.is_right(task.call, task.in_place, *c.algorithm, shape_of(task.call, c));
      });
      if (!is_right) wrong_.push_back(c);
      return !is_right;
    });
  }

  /// Times one call of each candidate.
  void take_first(const Tasks& tasks, Candidates& those) {
    time_each(those, tasks, [&](const Task& task, const Candidate& c) { return first(task, c); });
    std::erase_if(those, [](const Candidate& c) { return !std::isfinite(c.microseconds); });
    take_right(tasks, those);
  }

  LaunchShape shape_of(const Call& call, const Candidate& candidate) const {
    LaunchShape shape = candidate.algorithm->shapes(call, topology_)[candidate.shape];
    shape.threads = std::min(shape.threads, topology_.max_block_threads);
    return candidate.algorithm->fitted(shape, call, topology_);
  }

  /// The shapes, besides the first, of those that are nearly the fastest.
  Candidates other_shapes(const Call& call, const Candidates& those) const {
    Candidates others;
    for (const Candidate& c : those) {
      if (c.shape != 0 || c.microseconds > near_factor * fastest(those).microseconds) continue;
      std::vector<LaunchShape> known{shape_of(call, c)};
      const std::size_t shapes = c.algorithm->shapes(call, topology_).size();
      for (unsigned i = 1; i < shapes && those.size() + others.size() < most_candidates; ++i) {
        const Candidate other{c.algorithm, i, c.microseconds};
        const LaunchShape shape = shape_of(call, other);
        if (std::find(known.begin(), known.end(), shape) != known.end()) continue;
        known.push_back(shape);
        others.push_back(other);
      }
    }
    return others;
  }

  /// Replaces the candidates' times, which are those of one call, by exact ones.
  void time_exactly(const Tasks& tasks, Candidates& those) {
    if (those.empty()) return;
    time_many(tasks, those, plan_.repeats);
    if (plan_.all_shapes) {
      Candidates others = other_shapes(tasks.front().call, those);
      take_right(tasks, others);
      if (!others.empty()) time_many(tasks, others, plan_.repeats);
      those.insert(those.end(), others.begin(), others.end());
    }
    if (plan_.finals == 0) return;
    // One repeat of each at a time, so that what slows the machine down slows all of them down.
    Candidates close;
    const double limit = close_factor * fastest(those).microseconds;
    std::copy_if(those.begin(), those.end(), std::back_inserter(close),
                 [&](const Candidate& c) { return c.microseconds < limit; });
    if (close.size() < 2) return;
    const int rounds = repeats_for(tasks, close, plan_.finals);
    for (int i = 0; i < rounds; ++i) {
      Candidates again = close;
      time_many(tasks, again, 1);
      for (const Candidate& c : again)
        for (Candidate& known : those)
          if (known.is_of(c)) known.microseconds = std::min(known.microseconds, c.microseconds);
    }
  }

  double repeat_length() const {
    return plan_.repeat_us > 0 ? plan_.repeat_us : is_host() ? repeat_on_host_us : repeat_us;
  }

  /// As many as fit into the time for this size.
  int repeats_for(const Tasks& tasks, const Candidates& those, int most) const {
    double each = 0;
    for (const Candidate& c : those) each += std::max(c.microseconds, repeat_length());
    const double fit = share_ / (each * static_cast<double>(tasks.size()));
    return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(most)));
  }

  void time_many(const Tasks& tasks, Candidates& those, int most_repeats) {
    const double expected = std::max(fastest(those).microseconds, 0.01);
    const auto as_many = [](double of, int most) {
      return static_cast<int>(std::clamp(of, 1.0, static_cast<double>(most)));
    };
    const int calls = as_many(graph_us / expected, most_calls),
              rounds = as_many(repeat_length() / (expected * calls), most_rounds),
              repeats = repeats_for(tasks, those, most_repeats);
    time_each(those, tasks, [&](const Task& task, const Candidate& c) {
      return many(task, c, calls, rounds, repeats);
    });
  }

  static const Candidate& fastest(const Candidates& those) {
    return *std::min_element(those.begin(), those.end(), [](const auto& a, const auto& b) {
      return a.microseconds < b.microseconds;
    });
  }

  /// Times each candidate: the geometric mean over the tasks, each with the time of the slowest
  /// rank.
  template <class Time>
  void time_each(Candidates& those, const Tasks& tasks, Time time) {
    struct OfRank {
      std::array<double, most_candidates> microseconds;
      double passed;
    } mine{};
    std::vector<double> logarithms(those.size());
    for (const Task& task : tasks) {
      for (std::size_t i = 0; i < those.size(); ++i) mine.microseconds[i] = time(task, those[i]);
      mine.passed = microseconds_since(start_);
      const auto all = comm_.bootstrap().all_gather(mine);
      passed_ = all[0].passed;
      for (std::size_t i = 0; i < those.size(); ++i) {
        double slowest = 0;
        for (const OfRank& rank : all) slowest = std::max(slowest, rank.microseconds[i]);
        logarithms[i] += std::log(std::max(slowest, 1e-3));
      }
    }
    for (std::size_t i = 0; i < those.size(); ++i)
      those[i].microseconds = std::exp(logarithms[i] / static_cast<double>(tasks.size()));
  }

  void enqueue(const Task& task, const Candidate& candidate) const {
    CallOptions options{.algorithm = std::string(candidate.algorithm->name())};
    if (candidate.shape != 0) {
      const LaunchShape shape = shape_of(task.call, candidate);
      options.blocks = shape.blocks;
      options.threads = shape.threads;
    }
    comm_.enqueue(task.call, task.buffers.send, task.buffers.recv, stream_, options);
  }

  bool is_host() const { return topology_.backend == BackendKind::host; }

  void line_up() const {
    comm_.barrier(stream_);
    if (is_host()) comm_.synchronize(stream_);
  }

  /// One call, after one that finds its memory. Infinite if it is refused, on all ranks alike.
  double first(const Task& task, const Candidate& candidate) const {
    const auto work = [&] { enqueue(task, candidate); };
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_argument)
        throw;
      return never;
    }
    comm_.synchronize(stream_);
    return timed(work);
  }
  /// The least mean over `rounds` times `calls` calls, after one call.
  double many(const Task& task, const Candidate& candidate, int calls, int rounds,
              int repeats) const {
    std::function<void()> round = [&] {
      for (int i = 0; i < calls; ++i) {
        enqueue(task, candidate);
        if (is_host()) comm_.synchronize(stream_);
      }
    };
    enqueue(task, candidate);  // a capture must not be the first to find the memory
    std::unique_ptr<Graph> graph;
    if (!is_host()) {
      const DeviceScope device(backend_);
      backend_.begin_capture(stream_.native());
      round();
      graph = backend_.end_capture(stream_.native());
      graph->launch(stream_.native());  // uploads it
      round = [&] { graph->launch(stream_.native()); };
    }
    double least = never;
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
  const MeasuringPlan& plan_;
  const Clock::time_point start_ = Clock::now();
  Stream stream_;
  std::shared_ptr<Window> window_;
  std::shared_ptr<void> ordinary_memory_;
  MeasuringPlan::Buffers symmetric_, ordinary_;
  std::unique_ptr<Event> begin_, end_;
  std::size_t kinds_ = 0, done_ = 0;
  // Microseconds since the start, on rank 0's clock: now, and when the time for this kind is over.
  double passed_ = 0, until_ = 0;
  double share_ = 0;  // the time for this size
  Candidates wrong_;  // of this kind
  std::vector<MeasuredCall> measured_;
};

}  // namespace

MeasuringPlan MeasuringPlan::of_calibration(BackendKind backend) {
  const bool host = backend == BackendKind::host;
  MeasuringPlan plan;
  for (std::size_t bytes = host ? 128 : 512; bytes <= (host ? 2u << 20 : 32u << 20); bytes *= 4)
    plan.sizes.push_back(bytes);
  plan.limit_us = measuring_limit_us;
  return plan;
}

std::vector<MeasuredCall> measure_algorithms(Communicator& comm, const Topology& topology,
                                             const MeasuringPlan& plan) {
  return Measuring(comm, topology, plan).run();
}

}  // namespace plait
