#include "communicator/observe/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/observe/call_number.hpp"
#include "communicator/observe/own_kernel_names.hpp"
#include "core/log.hpp"
#include "core/start_thread.hpp"

namespace plait {
namespace {

/// Shorter than the time in which a ring wraps: it holds `span_ring` launches, and each takes two
/// microseconds or more.
constexpr std::chrono::milliseconds period{1};

std::string_view number_key(std::uint64_t number) {
  return is_message(number) ? "message" : "call";
}

std::int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

/// Formats events and appends them to the file a megabyte at a time.
class Writer {
 public:
  Writer(TraceFile& file, int communicator) : file_(file), first_track_(communicator * tracks) {}
  ~Writer() { flush(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  static constexpr int host = 0, kernels = 1, first_block = 2;

  void name_track(int track, const std::string& name) {
    event(R"("name":"thread_name","ph":"M","tid":{},"args":{{"name":{}}})", first_track_ + track,
          json_string(name));
  }
  /// `args`: members of a JSON object. Times are in nanoseconds; the file has microseconds.
  void span(int track, std::string_view category, std::string_view name, std::int64_t begin,
            std::int64_t end, std::string_view args) {
    event(R"("name":{},"cat":"{}","ph":"X","tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}})",
          json_string(name), category, first_track_ + track, microseconds(begin),
          microseconds(std::max(end - begin, std::int64_t{0})), args);
  }
  void mark(int track, std::string_view name, std::int64_t time, std::string_view args) {
    event(R"("name":{},"ph":"i","s":"t","tid":{},"ts":{:.3f},"args":{{{}}})", json_string(name),
          first_track_ + track, microseconds(time), args);
  }

 private:
  static constexpr int tracks = 2048;  // per communicator
  static_assert(tracks >= first_block + static_cast<int>(counted_blocks));

  static double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

  template <class... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), ",\n{{\"pid\":{},", file_.rank());
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '}';
    if (text_.size() > (1u << 20)) flush();
  }
  void flush() {
    file_.append(text_);
    text_.clear();
  }

  TraceFile& file_;
  int first_track_;
  std::string text_;
};

}  // namespace

void ClockOffset::note_after(std::int64_t device_ns, std::int64_t host_ns) {
  most_ = std::min(most_.value_or(device_ns - host_ns), device_ns - host_ns);
}
void ClockOffset::note_before(std::int64_t device_ns, std::int64_t host_ns) {
  least_ = std::max(least_.value_or(device_ns - host_ns), device_ns - host_ns);
}
std::optional<std::int64_t> ClockOffset::uncertainty() const {
  if (!least_ || !most_) return std::nullopt;
  return *most_ - *least_;
}

std::vector<std::size_t> sort_into_launches(std::vector<BlockLog::Span>& spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.started_ns < b.started_ns; });
  std::vector<std::size_t> firsts;
  std::set<unsigned> blocks;  // of the launch so far
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto& span = spans[i];
    const bool same = !firsts.empty() && spans[firsts.back()].call == span.call &&
                      spans[firsts.back()].blocks == span.blocks;
    if (!same || blocks.contains(span.block) ||
        blocks.size() == std::min(span.blocks, counted_blocks)) {
      firsts.push_back(i);
      blocks.clear();
    }
    blocks.insert(span.block);
  }
  return firsts;
}

Trace::Trace(std::shared_ptr<TraceFile> file, BlockLog& log, std::string name,
             std::vector<std::string> algorithms, bool same_clock)
    : file_(std::move(file)),
      log_(log),
      name_(std::move(name)),
      algorithms_(std::move(algorithms)),
      same_clock_(same_clock) {
  thread_ = start_thread("the thread that gathers a trace", [this] { run(); });
}

Trace::~Trace() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  try {
    take();
    write();
  } catch (const std::exception& error) {
    log::warn("PLAIT_TRACE: {}: {}", name_, error.what());
  }
}

void Trace::add(const HostCall& call) {
  if (calls_.size() < most_events) calls_.push_back(call);
  else ++calls_beyond_;
}

void Trace::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stop_; })) {
    try {
      take();
    } catch (const std::exception& error) {  // the device is lost
      log::warn("PLAIT_TRACE: {}: {}", name_, error.what());
      return;
    }
  }
}

void Trace::take() {
  const BlockLog::Taken taken = log_.take_spans(spans_);
  overwritten_ += taken.lost;
  if (taken.latest_ns != 0)
    clock_.note_before(static_cast<std::int64_t>(taken.latest_ns), nanoseconds(taken.read_at));
  if (spans_.size() <= most_events) return;
  spans_beyond_ += spans_.size() - most_events;
  spans_.resize(most_events);
}

const Trace::HostCall* Trace::find(std::uint64_t call) const {
  const auto found =
      std::lower_bound(calls_.begin(), calls_.end(), call,
                       [](const HostCall& c, std::uint64_t n) { return c.number < n; });
  return found == calls_.end() || found->number != call ? nullptr : &*found;
}

void Trace::relate_clocks() {
  for (const Span& span : spans_)
    if (const HostCall* call = find(span.call))
      clock_.note_after(static_cast<std::int64_t>(span.started_ns), nanoseconds(call->begin));
}

void Trace::write() {
  // Messages are numbered apart from collectives.
  std::sort(calls_.begin(), calls_.end(),
            [](const HostCall& a, const HostCall& b) { return a.number < b.number; });
  relate_clocks();
  const std::int64_t ahead = same_clock_ ? 0 : clock_.nanoseconds();
  const auto on_host = [&](std::uint64_t device_ns) {
    return static_cast<std::int64_t>(device_ns) - ahead;
  };
  const auto firsts = sort_into_launches(spans_);

  Writer writer(*file_, file_->add_communicator());
  writer.name_track(Writer::host, name_ + ": calls");
  writer.name_track(Writer::kernels, name_ + ": kernels");
  unsigned blocks = 0;
  for (const Span& span : spans_) blocks = std::max(blocks, span.block + 1);
  for (unsigned block = 0; block < blocks; ++block)
    writer.name_track(Writer::first_block + static_cast<int>(block),
                      fmt::format("{}: block {}", name_, block));

  const auto uncertainty = same_clock_ ? 0 : clock_.uncertainty();
  writer.mark(
      Writer::host, "communicator", nanoseconds(made_),
      fmt::format(R"("name":{},"device_clock_ahead_ns":{},"clock_uncertainty_ns":{},)"
                  R"("spans_overwritten":{},"spans_beyond_limit":{},"calls_beyond_limit":{})",
                  json_string(name_), ahead, uncertainty ? std::to_string(*uncertainty) : "null",
                  overwritten_, spans_beyond_, calls_beyond_));
  if (overwritten_ + spans_beyond_ + calls_beyond_ != 0) {
    const std::string what = fmt::format(
        "not in this trace: {} spans that were overwritten before they were read, and {} spans and "
        "{} calls beyond the limit",
        overwritten_, spans_beyond_, calls_beyond_);
    writer.mark(Writer::host, what, nanoseconds(made_), "");
    log::warn("PLAIT_TRACE: {}: {}", name_, what);
  }

  for (const HostCall& c : calls_) {
    const bool is_own = is_own_kernel(algorithms_.at(c.algorithm));
    writer.span(
        Writer::host, "call",
        is_own ? describe_own_kernel(c.call.count) : std::string(name_of(c.call.collective)),
        nanoseconds(c.begin), nanoseconds(c.end),
        fmt::format(R"("{}":{},"algorithm":{},"count":{},"type":"{}","op":"{}",)"
                    R"("blocks":{},"threads":{},"symmetric":{},"captured":{})",
                    number_key(c.number), plain_number(c.number),
                    json_string(algorithms_.at(c.algorithm)), is_own ? 0 : c.call.count,
                    name_of(c.call.type), name_of(c.call.op), c.shape.blocks, c.shape.threads,
                    c.call.symmetric, c.captured));
  }

  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const auto launch = std::span(spans_).subspan(
        firsts[i], (i + 1 < firsts.size() ? firsts[i + 1] : spans_.size()) - firsts[i]);
    const HostCall* call = find(launch[0].call);
    const std::string name = call == nullptr ? "kernel" : algorithms_.at(call->algorithm);
    const auto last = std::max_element(
        launch.begin(), launch.end(),
        [](const Span& a, const Span& b) { return a.completed_ns < b.completed_ns; });
    writer.span(Writer::kernels, "kernel", name, on_host(launch[0].started_ns),
                on_host(last->completed_ns),
                fmt::format(R"("{}":{},"blocks":{},"blocks_seen":{})", number_key(launch[0].call),
                            plain_number(launch[0].call), launch[0].blocks, launch.size()));
    for (const Span& span : launch)
      writer.span(Writer::first_block + static_cast<int>(span.block), "block", name,
                  on_host(span.started_ns), on_host(span.completed_ns),
                  fmt::format(R"("{}":{},"block":{})", number_key(span.call),
                              plain_number(span.call), span.block));
  }
}

}  // namespace plait
