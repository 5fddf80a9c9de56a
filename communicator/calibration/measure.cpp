#include "communicator/calibration/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "algorithms/contract/collectives.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/calibration/candidate_timer.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

/// An algorithm is measured if one call takes at most this many times as long as the fastest one's,
/// and these microseconds more, because a single time is not exact.
constexpr double first_factor = 3, first_more_us = 15;
/// An algorithm whose call takes twice as long as that, and longer than this, is not tried at
/// larger sizes. Algorithms that are slow for small messages alone stay below it.
constexpr double hopeless_us = 300;
/// A message that takes more than this times as long as a longer one was probably disturbed.
constexpr double disturbed_factor = 1.2;
/// The machine is slow while a small call takes more than this times as long as it can. Processors
/// of a virtual machine move: a flag between two of them took 0.12 us for seconds, and then 0.5 us
/// for as long (2026-11-26, 2 processors of an EPYC). Which algorithm is the fastest depends on it.
constexpr double slow_factor = 1.5;
constexpr double wait_us = 20e3;  // between two looks at a slow machine
/// The share of a kind's time for the sizes of the plan. The rest is for those between them.
constexpr double first_share = 0.6;

using Tasks = CandidateTimer::Tasks;

class Measuring {
 public:
  Measuring(Communicator& comm, const Topology& topology, const MeasuringPlan& plan)
      : comm_(comm),
        backend_(backend_of(comm)),
        topology_(topology),
        plan_(plan),
        timer_(comm, topology, plan),
        symmetric_(plan.symmetric_buffers),
        ordinary_(plan.ordinary_buffers) {
    allocate();
  }

  std::vector<MeasuredCall> run() {
    std::vector<MeasuredKind> kinds = kinds_of(plan_, topology_);
    std::erase_if(kinds, [this](const MeasuredKind& kind) { return !is_worth_it(kind); });
    kinds_ = kinds.size();
    for (done_ = 0; done_ < kinds_; ++done_) {
      // The time that is left is shared out evenly.
      until_ = timer_.passed() +
               (plan_.limit_us - timer_.passed()) / static_cast<double>(kinds_ - done_);
      if (!measure(kinds[done_])) break;
    }
    for (int pass = 0; pass < 2; ++pass)
      for (TimesOfKind& times : times_) measure_slow(times);
    return measured();
  }

 private:
  using Sizes = std::map<std::size_t, TimedCandidates>;
  struct TimesOfKind {
    MeasuredKind kind;
    Sizes sizes;
    std::map<std::size_t, double> pulses;  // the greater one before and after
  };

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

  bool is_worth_it(const MeasuredKind& kind) const {
    return std::any_of(plan_.sizes.begin(), plan_.sizes.end(), [&](std::size_t bytes) {
      return timer_.candidates(tasks_of(kind, bytes).front().call).size() > 1;
    });
  }

  /// False if the time is over.
  bool measure(const MeasuredKind& kind) {
    TimesOfKind times{kind, {}, {}};
    Sizes& sizes = times.sizes;
    std::set<const Algorithm*> too_slow;
    timer_.forget_wrong();
    for (std::size_t i = 0; i < plan_.sizes.size(); ++i) {
      const std::size_t bytes = plan_.sizes[i];
      const Tasks tasks = tasks_of(kind, bytes);
      TimedCandidates those = timer_.candidates(tasks.front().call);
      std::erase_if(those, [&](const TimedCandidate& c) { return too_slow.contains(c.algorithm); });
      const double before = calm_pulse();
      timer_.take_first(tasks, those);
      if (those.empty()) return true;  // the kind is left out
      const double limit = first_factor * fastest(those).microseconds + first_more_us;
      for (const TimedCandidate& candidate : those)
        if (candidate.microseconds > std::max(2 * limit, hopeless_us))
          too_slow.insert(candidate.algorithm);
      TimedCandidates slow;
      std::copy_if(those.begin(), those.end(), std::back_inserter(slow),
                   [&](const TimedCandidate& c) { return c.microseconds > limit; });
      std::erase_if(those, [&](const TimedCandidate& c) { return c.microseconds > limit; });
      const double share = (until_ - timer_.passed()) * (plan_.halvings > 0 ? first_share : 1) /
                           static_cast<double>(plan_.sizes.size() - i);
      timer_.time_exactly(tasks, those, share);
      times.pulses[bytes] = std::max(before, pulse());
      those.insert(those.end(), slow.begin(), slow.end());
      sizes[bytes] = std::move(those);
      say(kind, bytes, static_cast<double>(i + 1) / static_cast<double>(plan_.sizes.size()));
      if (timer_.passed() >= plan_.limit_us) return false;
    }
    measure_disturbed(kind, sizes);
    for (int i = 0; i < plan_.halvings && timer_.passed() < until_; ++i) measure_between(times);
    if (plan_.halvings != 0) measure_disturbed(kind, sizes);
    for (auto& [bytes, those] : sizes)
      std::erase_if(those, [&](const TimedCandidate& c) { return timer_.is_wrong(c); });
    times_.push_back(std::move(times));
    return timer_.passed() < plan_.limit_us;
  }

  std::vector<MeasuredCall> measured() const {
    std::vector<MeasuredCall> result;
    for (const auto& [kind, sizes, pulses] : times_)
      for (const auto& [bytes, those] : sizes)
        for (const TimedCandidate& candidate : those)
          result.push_back({.call = tasks_of(kind, bytes).front().call,
                            .algorithm = std::string(candidate.algorithm->name()),
                            .microseconds = candidate.microseconds,
                            .shape = candidate.shape});
    return result;
  }

  /// The plan's pulse. Collective, like the functions below.
  double pulse() {
    if (!plan_.pulse) return 0;
    const double now = plan_.pulse();
    if (least_pulse_ == 0 || now < least_pulse_) least_pulse_ = now;
    return now;
  }
  bool is_slow(double pulse) const { return pulse > slow_factor * least_pulse_; }
  /// The same, but first waits for the end of a slow state, within the plan's patience.
  double calm_pulse() {
    double now = pulse();
    for (; is_slow(now) && waited_ < plan_.patience_us; waited_ += wait_us) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(wait_us));
      now = pulse();
    }
    return now;
  }

  /// Times again what was timed while the machine was slow, which is only known by now. The lesser
  /// time counts.
  void measure_slow(TimesOfKind& times) {
    for (auto& [bytes, pulse_then] : times.pulses) {
      if (!is_slow(pulse_then) || timer_.passed() >= plan_.limit_us) continue;
      TimedCandidates& known = times.sizes[bytes];
      if (known.empty()) continue;
      const double limit = first_factor * fastest(known).microseconds + first_more_us;
      TimedCandidates those;
      std::copy_if(known.begin(), known.end(), std::back_inserter(those),
                   [&](const TimedCandidate& c) { return c.microseconds <= limit; });
      const double share =
          (plan_.limit_us - timer_.passed()) / static_cast<double>(times.pulses.size());
      const double before = calm_pulse();
      timer_.time_many(tasks_of(times.kind, bytes), those, plan_.repeats, share,
                       fastest(known).microseconds);
      pulse_then = std::max(before, pulse());
      take_less(known, those);
    }
  }

  /// Measures again what other work on the machine seems to have slowed down. The lesser time
  /// counts.
  void measure_disturbed(const MeasuredKind& kind, Sizes& sizes) {
    std::map<std::pair<const Algorithm*, unsigned>, double> of_longer;
    std::size_t left = sizes.size();
    for (auto size = sizes.rbegin(); size != sizes.rend() && timer_.passed() < until_;
         ++size, --left) {
      TimedCandidates disturbed;
      for (const TimedCandidate& c : size->second) {
        const auto [known, is_new] = of_longer.try_emplace({c.algorithm, c.shape}, c.microseconds);
        if (!is_new && c.microseconds > disturbed_factor * known->second) disturbed.push_back(c);
        known->second = std::min(known->second, c.microseconds);
      }
      if (disturbed.empty()) continue;
      const double share = (until_ - timer_.passed()) / static_cast<double>(left);
      timer_.time_many(tasks_of(kind, size->first), disturbed, plan_.repeats, share,
                       fastest(size->second).microseconds);
      take_less(size->second, disturbed);
    }
  }

  /// Where the fastest algorithm between two sizes is not clear, adds the size in their middle,
  /// because times don't always follow a line from one to the other. Only algorithms that were near
  /// the fastest at one of the two take part.
  void measure_between(TimesOfKind& times) {
    const MeasuredKind& kind = times.kind;
    Sizes& sizes = times.sizes;
    Sizes between;
    std::size_t gaps = sizes.size() - 1;
    for (auto low = sizes.begin(), high = std::next(low); high != sizes.end();
         ++low, ++high, --gaps) {
      const std::size_t bytes = middle(low->first, high->first);
      if (!is_close(low->second, high->second) || bytes == low->first) continue;
      TimedCandidates those;
      for (const TimedCandidates* side : {&low->second, &high->second})
        for (const TimedCandidate& c : *side)
          if (c.shape == 0 && c.microseconds < near_factor * fastest(*side).microseconds &&
              std::none_of(those.begin(), those.end(),
                           [&](const TimedCandidate& o) { return o.algorithm == c.algorithm; }))
            those.push_back(c);
      const Tasks tasks = tasks_of(kind, bytes);
      std::erase_if(those, [&](const TimedCandidate& c) {
        return !can_serve(*c.algorithm, tasks.front().call, topology_);
      });
      const double before = calm_pulse();
      timer_.take_first(tasks, those);
      if (those.empty()) continue;
      const double share = (until_ - timer_.passed()) / static_cast<double>(gaps);
      timer_.time_exactly(tasks, those, share);
      times.pulses[bytes] = std::max(before, pulse());
      between[bytes] = std::move(those);
      say(kind, bytes, 1);
      if (timer_.passed() >= until_) break;
    }
    sizes.merge(between);
  }

  /// The size in the middle on a logarithmic scale, to three binary digits.
  static std::size_t middle(std::size_t low, std::size_t high) {
    const double exact = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
    const std::size_t grain = std::size_t{1} << std::max(std::ilogb(exact) - 3, 0);
    return std::max(low, static_cast<std::size_t>(exact) / grain * grain);
  }

  void say(const MeasuredKind& kind, std::size_t bytes, double done) const {
    if (plan_.progress)
      plan_.progress(kind, bytes,
                     (static_cast<double>(done_) + done) / static_cast<double>(kinds_));
  }

  Communicator& comm_;
  Backend& backend_;
  const Topology& topology_;
  const MeasuringPlan& plan_;
  CandidateTimer timer_;
  std::shared_ptr<Window> window_;
  std::shared_ptr<void> ordinary_memory_;
  MeasuringPlan::Buffers symmetric_, ordinary_;
  std::size_t kinds_ = 0, done_ = 0;
  double until_ = 0;  // when the time for this kind is over, as CandidateTimer::passed
  double least_pulse_ = 0, waited_ = 0;
  std::vector<TimesOfKind> times_;
};

}  // namespace

std::vector<MeasuredCall> measure_algorithms(Communicator& comm, const Topology& topology,
                                             const MeasuringPlan& plan) {
  return Measuring(comm, topology, plan).run();
}

}  // namespace plait
