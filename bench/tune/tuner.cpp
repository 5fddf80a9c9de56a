#include "bench/tune/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "bench/contender.hpp"
#include "bench/files.hpp"
#include "bench/verify.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/calibration/calibration.hpp"
#include "communicator/selection/selection.hpp"
#include "core/cache.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// A choice that takes at most this many times as long as the fastest algorithm is a good one.
constexpr double good_factor = 1.03;

std::string name_of_place(const Call& call) {
  return !call.symmetric ? "ordinary memory"
         : call.in_place ? "symmetric memory, in place"
                         : "symmetric memory";
}

std::string name_of_kind(const Call& call) {
  return fmt::format("{} {}, {}", plait::name_of(call.collective), plait::name_of(call.type),
                     name_of_place(call));
}

/// Choices compared with the fastest candidates.
class Comparison {
 public:
  void add(const Call& call, std::string_view rule, double ratio) {
    logarithms_ += std::log(ratio);
    ++calls_;
    good_ += ratio <= good_factor ? 1 : 0;
    ++rules_[std::string(rule)];
    if (ratio < worst_) return;
    worst_ = ratio;
    worst_bytes_ = call.bytes();
  }
  /// A choice that is so far behind that its time was not taken.
  void add_far(std::string_view rule) {
    ++far_;
    ++rules_[std::string(rule)];
  }
  bool empty() const { return calls_ + far_ == 0; }
  std::string text() const {
    const std::string mean = calls_ == 0
                                 ? "- - -"
                                 : fmt::format("{:.3f} {:.2f} {}", std::exp(logarithms_ / calls_),
                                               worst_, format_bytes(worst_bytes_));
    const std::string far = far_ == 0 ? "" : fmt::format(", {} far behind", far_);
    return fmt::format("{} {:.1f} %{}", mean, 100.0 * good_ / (calls_ + far_), far);
  }
  std::string rules() const {
    std::string text;
    for (const auto& [rule, calls] : rules_)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", calls, rule);
    return text;
  }

 private:
  double logarithms_ = 0, worst_ = 0;
  std::size_t worst_bytes_ = 0;
  int calls_ = 0, good_ = 0, far_ = 0;
  std::map<std::string, int> rules_;
};

}  // namespace

Tuner::Tuner(std::unique_ptr<Bootstrap> world, const TuneOptions& options)
    : options_(options),
      comm_(Communicator::create(std::move(world), {.backend = options.backend})),
      stream_(comm_.create_stream()) {
  const Topology& topology = selector_of(comm_).topology();
  if (topology.ranks == 1)
    throw Error(ErrorCode::unsupported, "one rank has no choice of algorithms: start several");
  if (topology.nodes > 1)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the ranks are on {} nodes, and times are for one node", topology.nodes));
  const std::size_t bytes = std::max(tuned_sizes(options_, topology.backend).back(),
                                     largest_element * static_cast<std::size_t>(topology.ranks));
  agree(comm_.bootstrap(), "options", [&] {
    if (speaks() && !options_.check && !options_.output.empty()) check_writable(options_.output);
    const std::size_t buffers = 4 * static_cast<std::size_t>(topology.ranks);
    if (topology.backend == BackendKind::host && bytes > available_host_memory() / buffers)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("messages of up to {}: there is no memory for {} buffers of that size",
                      format_bytes(bytes), buffers));
  });
  if (options_.symmetric) symmetric_.emplace(symmetric_memory(comm_), bytes);
  if (options_.ordinary) ordinary_.emplace(ordinary_memory(comm_), bytes);
}

MeasuringPlan Tuner::make_plan(std::vector<std::size_t> sizes) {
  MeasuringPlan plan;
  plan.collectives = options_.collectives;
  plan.types = options_.types;
  plan.symmetric = options_.symmetric;
  plan.ordinary = options_.ordinary;
  plan.sizes = std::move(sizes);
  plan.all_shapes = true;
  plan.repeats = 5;
  plan.finals = 5;
  plan.repeat_us = 500;
  plan.limit_us = options_.seconds * 1e6;
  if (symmetric_) plan.symmetric_buffers = {symmetric_->send(), symmetric_->recv()};
  if (ordinary_) plan.ordinary_buffers = {ordinary_->send(), ordinary_->recv()};
  // Graphs of GPUs don't depend on where the host's processors are.
  if (comm_.backend_kind() == BackendKind::host) {
    plan.pulse = [this] { return pulse(); };
    plan.patience_us = plan.limit_us / 3;
  }
  plan.is_right = [this](const Call& call, bool in_place, const Algorithm& algorithm,
                         LaunchShape shape) { return is_right(call, in_place, algorithm, shape); };
  plan.progress = [this, start = Clock::now()](const MeasuredKind& kind, std::size_t bytes,
                                               double done) {
    done_ = done;
    if (!progress_) return;
    const std::chrono::duration<double> passed = Clock::now() - start;
    const double left = std::max(0.0, std::min(passed.count() * (1 - done) / std::max(done, 1e-3),
                                               options_.seconds - passed.count()));
    progress_->show(done, left, "",
                    fmt::format("{}, {}", name_of_kind(kind.call), format_bytes(bytes)));
  };
  return plan;
}

double Tuner::pulse() {
  constexpr int calls = 200;
  const Arena& arena = options_.symmetric ? *symmetric_ : *ordinary_;
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) {
    comm_.all_reduce(arena.send(), arena.recv(), 1, DataType::f32, ReduceOp::sum, stream_);
    comm_.synchronize(stream_);
  }
  const std::chrono::duration<double, std::micro> own = Clock::now() - start;
  const std::vector<double> all = comm_.bootstrap().all_gather(own.count() / calls);
  const double slowest = *std::max_element(all.begin(), all.end());
  least_pulse_ = std::min(least_pulse_, slowest);
  return slowest;
}

void Tuner::print_pulse() const {
  if (std::isfinite(least_pulse_))
    fmt::print("# pulse: an all-reduce of 4 bytes took {:.2f} us at best\n", least_pulse_);
}

bool Tuner::is_right(const Call& call, bool in_place, const Algorithm& algorithm,
                     LaunchShape shape) {
  const Memory memory = call.symmetric ? Memory::symmetric : Memory::ordinary;
  const Arena& arena = call.symmetric ? *symmetric_ : *ordinary_;
  Options one;
  one.blocks = shape.blocks;
  one.threads = shape.threads;
  const auto contender = make_plait(comm_, std::string(algorithm.name()), memory, arena, one);
  const Task task =
      make_task(call, call.bytes(), in_place, call.symmetric, arena, comm_.rank(), comm_.size());
  const std::size_t wrong = count_wrong(comm_, stream_.native(), *contender, task, ++seed_);
  if (wrong == 0) return true;
  ++wrong_;
  if (progress_) {
    progress_->hide();
    fmt::print(stderr,
               "plait-tune: {} with {} blocks of {} threads is wrong and left out: {}, {} bytes, "
               "{} wrong elements\n",
               algorithm.name(), shape.blocks, shape.threads, name_of_kind(call), call.bytes(),
               wrong);
  }
  return false;
}

std::vector<MeasuredCall> Tuner::measure(const MeasuringPlan& plan) {
  if (speaks())
    progress_.emplace("plait-tune", resolve(Progress::automatic, stderr), stderr,
                      std::chrono::seconds(0));
  auto measured = measure_algorithms(comm_, selector_of(comm_).topology(), plan);
  progress_.reset();
  if (measured.empty())
    throw Error(ErrorCode::unsupported,
                done_ == 0
                    ? "there is no choice: one algorithm serves all of these calls"
                    : fmt::format("{:.0f} s are not enough for one collective", options_.seconds));
  if (done_ < 1 && speaks())
    fmt::print("# {:.0f} % are measured, because the time was over (--seconds)\n", 100 * done_);
  return measured;
}

void Tuner::write(const std::vector<MeasuredCall>& measured) const {
  const Topology& topology = selector_of(comm_).topology();
  const std::string key = describe_for_calibration(backend_of(comm_).info(), topology);
  const std::string text = fmt::format("{}# {}\n", MeasuredTimes(key, measured).text(),
                                       printable(options_.command_line));
  std::string path = options_.output;
  if (!path.empty()) {
    write_text(path, text);
  } else {
    path = tuned_path(topology, key).value_or("");
    const std::string why_not = path.empty() ? why_no_cache() : write_cached(path, text);
    if (!why_not.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the times can't be kept: {}; -o names another file", why_not));
  }
  fmt::print("# {} times are kept in {}\n", measured.size(), in_quotes(path));
  print_pulse();
}

std::size_t Tuner::tune() {
  MeasuringPlan plan = make_plan(tuned_sizes(options_, comm_.backend_kind()));
  plan.halvings = 2;
  const auto measured = measure(plan);
  agree(comm_.bootstrap(), "the file", [&] {
    if (speaks()) write(measured);
  });
  return wrong_;
}

std::size_t Tuner::check() {
  const Selector& selector = selector_of(comm_);
  MeasuringPlan plan = make_plan(checked_sizes(options_, comm_.backend_kind()));
  plan.halvings = 0;
  const auto measured = measure(plan);
  if (!speaks()) return wrong_;
  fmt::print(
      "# the choice's time / the fastest algorithm's: geometric mean, worst, its bytes, and "
      "the part that takes at most {:.0f} % more. Choices far behind have no time, and count in "
      "that part alone\n",
      100 * (good_factor - 1));
  if (options_.verbose)
    fmt::print("# indented: bytes, the choice@shape and its us (0: far behind), the fastest\n");
  Comparison all, kind;
  for (auto from = measured.begin(), to = from; from != measured.end(); from = to) {
    const Call& call = from->call;
    to = std::find_if(from, measured.end(),
                      [&](const MeasuredCall& other) { return other.call != call; });
    const Choice choice = selector.choose(call, {});
    double own = 0, of_algorithm = 0;
    const auto fastest = std::min_element(from, to, [](const auto& one, const auto& other) {
      return one.microseconds < other.microseconds;
    });
    for (auto one = from; one != to; ++one) {
      if (one->algorithm != choice.algorithm->name()) continue;
      of_algorithm = one->microseconds;
      if (one->shape == choice.shape_number) own = one->microseconds;
    }
    // Far from the fastest, other shapes than the first are not measured.
    if (own == 0) own = of_algorithm;
    if (options_.verbose)
      fmt::print("  {:>9} {}@{} {:.4g}, {}@{} {:.4g}\n", format_bytes(call.bytes()),
                 choice.algorithm->name(), choice.shape_number, own, fastest->algorithm,
                 fastest->shape, fastest->microseconds);
    for (Comparison* comparison : {&kind, &all}) {
      if (own != 0) comparison->add(call, choice.rule, own / fastest->microseconds);
      else comparison->add_far(choice.rule);
    }
    const bool ends = to == measured.end() || name_of_kind(to->call) != name_of_kind(call);
    if (ends && !kind.empty()) {
      fmt::print("{:<50} {}\n", name_of_kind(call), kind.text());
      kind = {};
    }
  }
  if (!all.empty()) fmt::print("{:<50} {}\n# by {}\n", "all", all.text(), all.rules());
  print_pulse();
  return wrong_;
}

}  // namespace plait::bench
