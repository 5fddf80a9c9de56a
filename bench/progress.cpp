#include "bench/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/environment.hpp"
#include "core/text.hpp"

namespace plait::bench {
namespace {

/// How long measurements of one size take in comparison with others, before they are known: the
/// calls of a repeat fill a time that is equal for all sizes, and filling and checking the buffers
/// takes as long as that from about this size on.
double weight(std::size_t bytes) { return 1 + static_cast<double>(bytes) / (16 << 20); }

/// The least time between two drawings of the bar.
constexpr std::chrono::milliseconds frame{100};

int columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  return fmt::format("[{}{}]", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(width - full), '.'));
}

}  // namespace

void RemainingTime::took(std::size_t bytes, double seconds) {
  Size& size = sizes_[bytes];
  size.open = std::max(size.open - 1, 0);
  ++size.done;
  size.seconds += seconds;
  ++done_;
}

/// 0 if nothing is known.
double RemainingTime::seconds_of_one(std::size_t bytes) const {
  const auto average = [&](auto entry) {
    return entry->second.seconds / entry->second.done * weight(bytes) / weight(entry->first);
  };
  const auto known = [](const auto& entry) { return entry.second.done > 0; };
  const auto here = sizes_.lower_bound(bytes);
  const auto below = std::find_if(std::make_reverse_iterator(here), sizes_.rend(), known);
  const auto from = std::find_if(here, sizes_.end(), known);
  if (from != sizes_.end() && (from->first == bytes || below == sizes_.rend()))
    return average(from);
  return below == sizes_.rend() ? 0 : average(below);
}

std::optional<double> RemainingTime::left() const {
  if (done_ == 0) return std::nullopt;
  double seconds = 0;
  for (const auto& [bytes, size] : sizes_)
    if (size.open > 0) seconds += size.open * seconds_of_one(bytes);
  return seconds;
}

double RemainingTime::share() const {
  double passed = 0;
  for (const auto& [bytes, size] : sizes_) passed += size.seconds;
  const double all = passed + left().value_or(1);
  return all > 0 ? passed / all : 0;
}

int RemainingTime::all() const {
  int all = done_;
  for (const auto& [bytes, size] : sizes_) all += size.open;
  return all;
}

std::string duration(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole < 90) return fmt::format("{} s", whole);
  const long minutes = (whole + 59) / 60;
  if (minutes < 90) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

void ProgressLine::show(double share, std::optional<double> left, const std::string& count,
                        const std::string& what) {
  const auto now = Clock::now();
  if (how_ == Progress::bar) {
    if (drawn_ && now - last_shown_ < frame) return;
    std::string line =
        fmt::format("{} {}{}{}: {}", bar(share, 24), count, count.empty() ? "" : ", ",
                    left ? duration(*left) + " left" : "time unknown", printable(what));
    // The last column stays free: a cursor behind it would be in the next line.
    line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(columns(out_) - 1, 0))));
    fmt::print(out_, "\r\x1b[K{}", line);
    drawn_ = true;
  } else if (how_ == Progress::lines) {
    const int tenths = static_cast<int>(share * 10);
    if (tenths <= tenths_ || now - started_ < quiet_ || now - last_shown_ < quiet_) return;
    tenths_ = tenths;
    fmt::print(out_, "{}: {} % done, {}{}about {} left\n", program_, tenths * 10, count,
               count.empty() ? "" : ", ", duration(left.value_or(0)));
  }
  last_shown_ = now;
  std::fflush(out_);
}

void ProgressLine::hide() {
  if (!drawn_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
  drawn_ = false;
}

void ProgressReport::begin(std::size_t bytes, const std::string& what) {
  if (line_.is_silent()) return;
  finish_one();
  running_ = true;
  bytes_ = bytes;
  line_.show(time_.share(), time_.left(), fmt::format("{} of {}", time_.done(), time_.all()), what);
}

void ProgressReport::finish_one() {
  const auto now = Clock::now();
  if (running_) time_.took(bytes_, std::chrono::duration<double>(now - begun_).count());
  running_ = false;
  begun_ = now;
}

void ProgressReport::end() {
  finish_one();
  hide();
}

Progress resolve(Progress how, std::FILE* out) {
  if (how != Progress::automatic) return how;
  const bool can_draw = ::isatty(::fileno(out)) == 1 && environment("TERM") != "dumb";
  return can_draw ? Progress::bar : Progress::lines;
}

}  // namespace plait::bench
