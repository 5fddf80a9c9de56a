#include "communicator/fault/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "communicator/fault/monitor.hpp"
#include "communicator/observe/call_number.hpp"
#include "core/log.hpp"

namespace plait {
namespace {

/// What the descriptions of two calls that differ do not show.
std::string_view difference(const CallLogs::Difference& found) {
  if (!found.exact || found.mine.count != found.theirs.count ||
      found.mine.facts != found.theirs.facts)
    return "";
  if (found.mine.place != found.theirs.place) {
    if (found.mine.collective() == Collective::gather ||
        found.mine.collective() == Collective::scatter)
      return ", at another place in symmetric memory: its offset must be the same on all ranks, "
             "also in place, where all pass the root's";
    return ", at another place in symmetric memory: its offset must be the same on all ranks";
  }
  return ", with another scale, launch shape or company in a group";
}

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Backend> backend, std::shared_ptr<Board> board,
                   std::vector<std::string> algorithms, std::uint32_t* claimed,
                   std::chrono::nanoseconds timeout, int rank)
    : backend_(std::move(backend)),
      owned_board_(std::move(board)),
      board_(*owned_board_),
      algorithms_(std::move(algorithms)),
      shared_(static_cast<Shared*>(backend_->allocate_pinned(sizeof(Shared)))),
      claimed_(claimed),
      timeout_(timeout),
      rank_(rank) {}

Watchdog::~Watchdog() { backend_->deallocate_pinned(shared_); }

Watch Watchdog::watch(std::uint64_t call, std::uint32_t algorithm) const {
  return {.abort = &shared_->abort,
          .record = &shared_->record,
          .claimed = claimed_,
          .timeout_ns = static_cast<std::uint64_t>(timeout_.count()),
          .call = call,
          .algorithm = algorithm,
          .rank = rank_};
}

bool Watchdog::kernel_gave_up(GaveUp why) const {
  return std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) == why;
}

void Watchdog::break_with(ErrorCode code, const std::string& why, Board::State state) {
  std::atomic_ref(shared_->abort).store(1, std::memory_order_release);
  board_.announce(state, code, why);
  if (error_) return;
  error_.emplace(code, why);
  is_news_ = true;
  broken_ = true;
}

/// Runs `body` with the lock held. If it breaks the communicator, says so and passes an abort on,
/// both without the lock.
template <class Body>
void Watchdog::locked(Body body) {
  std::optional<Error> news;
  std::vector<std::weak_ptr<Watchdog>> children;
  Told told;
  {
    const std::lock_guard lock(mutex_);
    body();
    if (!std::exchange(is_news_, false)) return;
    news = error_;
    children = children_;
    told = told_;
  }
  log::info("rank {}: {}", rank_, news->what());
  if (news->code() != ErrorCode::aborted) return;
  for (const auto& child : children)
    if (const auto alive = child.lock()) alive->abort_with_parent(*news, told);
}

void Watchdog::abort_with_parent(const Error& error, const Told& told) {
  locked([&] {
    if (!error_) told_ = told;
    break_with(error.code(), error.what(), Board::State::aborted);
  });
}

void Watchdog::tell() const {
  const std::lock_guard lock(mutex_);
  *told_ = true;
}

bool Watchdog::was_told() const {
  const std::lock_guard lock(mutex_);
  return *told_;
}

void Watchdog::add_child(const std::shared_ptr<Watchdog>& child) {
  std::optional<Error> error;
  Told told;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(children_, [](const auto& other) { return other.expired(); });
    children_.push_back(child);
    error = error_;
    told = told_;
  }
  if (error && error->code() == ErrorCode::aborted) child->abort_with_parent(*error, told);
}

void Watchdog::abort(ErrorCode code, const std::string& why) {
  locked([&] {
    if (!error_) *told_ = true;
    break_with(code, why, Board::State::aborted);
  });
}

std::optional<Error> Watchdog::broken_error() {
  // A kernel that was told to give up ends before all ranks have shown where they wait, and with it
  // what its caller waits for.
  for (;;) {
    std::optional<Error> found;
    locked([&] {
      if (!error_ && kernel_gave_up(unreadable)) report_unreadable();
      if (!error_ && !timeout_of_) begin_timeout(rank_);
      if (!error_) finish_timeout();
      found = error_;
    });
    if (found) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Watchdog::look() {
  locked([this] { look_locked(); });
}

void Watchdog::look_locked() {
  if (std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) != 0)
    board_.show(shared_->record);
  if (!error_) compare_calls();
  if (error_) return;
  if (kernel_gave_up(unreadable)) return report_unreadable();
  if (timeout_of_) return finish_timeout();
  if (kernel_gave_up(out_of_time)) return begin_timeout(rank_);
  for (int rank = 0; rank < board_.ranks(); ++rank) {
    if (rank == rank_) continue;
    switch (board_.state(rank)) {
      case Board::State::aborted:
        return break_with(board_.reason(rank).code(), board_.reason(rank).what(),
                          Board::State::aborted);
      case Board::State::gave_up:
        return begin_timeout(rank);
      case Board::State::working:
        if (board_.is_lost(rank)) return lose(rank, "");
        break;
      case Board::State::left:
      case Board::State::ending:
        if (const auto call = board_.waits_in_vain_for(rank, algorithms_))
          return lose(rank, "; " + *call);
        break;
    }
  }
}

void Watchdog::lose(int rank, const std::string& call) {
  break_with(
      ErrorCode::rank_lost,
      fmt::format("{}{}; the communicator is broken", board_.describe(rank, algorithms_), call),
      Board::State::aborted);
}

void Watchdog::compare() {
  if (broken_) return;
  locked([this] {
    if (!error_) compare_calls();
  });
}

namespace {

/// A clock that ticks every few milliseconds, and takes a fifth of the time that the exact one does
/// to read.
std::int64_t coarse_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void Watchdog::compare_now_and_then() {
  constexpr unsigned skips = 15;
  const std::int64_t now = coarse_nanoseconds();
  if (now == compared_at_ && skipped_ < skips) {
    ++skipped_;
    return;
  }
  compared_at_ = now;
  skipped_ = 0;
  compare();
}

void Watchdog::compare_calls() {
  using Kind = Board::Disagreement::Kind;
  const auto found = board_.compare();
  if (!found) return;
  const bool collective = found->kind == Kind::collective, sent = found->kind == Kind::sent;
  const std::string what =
      collective ? fmt::format("call {}", found->call)
                 : fmt::format("message {} from rank {} to rank {}", found->call,
                               sent ? rank_ : found->rank, sent ? found->rank : rank_);
  break_with(
      ErrorCode::mismatch,
      fmt::format("ranks disagree {}{}: rank {} {} {}; rank {} {} {}{}; the communicator is broken",
                  found->exact ? "in " : "before ", what, rank_,
                  collective ? "calls"
                  : sent     ? "sends"
                             : "receives",
                  found->mine.describe(algorithms_), found->rank,
                  collective ? "calls"
                  : sent     ? "receives"
                             : "sends",
                  found->theirs.describe(algorithms_), difference(*found)),
      Board::State::aborted);
}

/// The kernel refused to copy from the peer's buffer. If that rank read the buffer itself, it would
/// end by a signal.
void Watchdog::report_unreadable() {
  const DiagnosticRecord& record = shared_->record;
  break_with(
      ErrorCode::invalid_argument,
      fmt::format(
          "in {} ({}) rank {} can't read from rank {}: the send buffer there, or the recv buffer "
          "here, is not all mapped "
          "memory, or the system forbids to read that process now; the communicator is broken",
          describe_number(record.call), algorithms_.at(record.algorithm), rank_, record.peer),
      Board::State::aborted);
}

/// Ends the kernels of this rank and, through their watchdogs, of its peers, so that they show
/// where they wait.
void Watchdog::begin_timeout(int rank) {
  std::atomic_ref(shared_->abort).store(1, std::memory_order_release);
  if (rank == rank_) board_.show(shared_->record);
  board_.announce(Board::State::gave_up);
  timeout_of_ = rank;
  report_by_ = std::chrono::steady_clock::now() + 4 * monitor_period;
}

/// Once all ranks have shown where they wait. One that is in no call shows nothing, so at last
/// without it.
void Watchdog::finish_timeout() {
  if (std::chrono::steady_clock::now() < report_by_)
    for (int rank = 0; rank < board_.ranks(); ++rank)
      if (!board_.record(rank) && board_.departure(rank).empty() && board_.is_alive(rank)) return;
  const auto settled = board_.settled();
  const Report report = report_of(settled ? *settled : board_.settle(find_culprit(first_record())));
  const DiagnosticRecord& record = report.record;
  std::string text = fmt::format(
      "{}: in {} ({}) rank {} waited {:.3g} s for rank {}, in block {} at step {} (expected {}, "
      "saw {}); the communicator is broken",
      report.says, describe_number(record.call), algorithms_.at(record.algorithm), record.rank,
      std::chrono::duration<double>(timeout_).count(), record.peer, record.block, record.step,
      record.expected, record.seen);
  for (int rank = 0; rank < board_.ranks(); ++rank) {
    text += "\n  " + board_.describe(rank, algorithms_);
    if (const auto its = board_.record(rank)) text += "; " + waiting(*its);
  }
  break_with(ErrorCode::timeout, text + report.hint, Board::State::gave_up);
}

/// Of the lowest rank whose time was over: several may have found that out at once, and all are to
/// report the same.
DiagnosticRecord Watchdog::first_record() const {
  for (int rank = 0; rank < board_.ranks(); ++rank)
    if (const auto its = board_.record(rank); its && its->state == out_of_time) return *its;
  return board_.record(*timeout_of_).value_or(shared_->record);
}

/// The rank that has made too few collectives for `record`'s: of several, the peer that is waited
/// for, else one that shows no wait itself.
std::optional<int> Watchdog::find_behind(const DiagnosticRecord& record) const {
  if (is_message(record.call)) return std::nullopt;
  std::uint64_t fewest = board_.calls(record.peer);
  for (int rank = 0; rank < board_.ranks(); ++rank) fewest = std::min(fewest, board_.calls(rank));
  if (fewest >= plain_number(record.call)) return std::nullopt;
  if (board_.calls(record.peer) == fewest) return record.peer;
  std::optional<int> found;
  for (int rank = 0; rank < board_.ranks(); ++rank) {
    if (board_.calls(rank) != fewest) continue;
    if (!board_.record(rank)) return rank;
    if (!found) found = rank;
  }
  return found;
}

/// Of a rank that `record`'s waits for and that does not wait itself.
Board::Verdict::Kind Watchdog::kind_of(int rank, const DiagnosticRecord& record) const {
  using enum Board::Verdict::Kind;
  if (is_message(record.call) || !board_.departure(rank).empty()) return missing;
  if (board_.calls(rank) < plain_number(record.call)) return behind;
  return is_silent(rank) ? silent : late;
}

/// Whether it has not heard that others have given up, which takes its monitor a period.
bool Watchdog::is_silent(int rank) const {
  return board_.state(rank) == Board::State::working && !board_.record(rank);
}

/// From the first rank whose time was over to the one that it waits for, to the one that that one
/// waits for, and so on: to one that does not wait. In a collective a rank that has not made the
/// call is waited for by all.
Board::Verdict Watchdog::find_culprit(const DiagnosticRecord& first) const {
  using Verdict = Board::Verdict;
  for (int rank = 0; rank < board_.ranks(); ++rank)
    if (board_.is_lost(rank))
      return {.kind = Verdict::Kind::missing, .rank = rank, .witness = first.rank};
  std::vector<DiagnosticRecord> path;
  for (DiagnosticRecord its = first;;) {
    path.push_back(its);
    const int next = find_behind(its).value_or(its.peer);
    const auto record = board_.record(next);
    if (!record || next == its.rank)
      return {.kind = kind_of(next, its), .rank = next, .witness = first.rank};
    const auto before = std::find_if(path.begin(), path.end(), [&](const DiagnosticRecord& other) {
      return other.rank == next;
    });
    if (before != path.end()) return find_culprit_of_circle({before, path.end()});
    its = *record;
  }
}

Board::Verdict Watchdog::find_culprit_of_circle(std::vector<DiagnosticRecord> circle) const {
  using Verdict = Board::Verdict;
  // The same on all ranks, wherever they came in.
  const auto lowest = std::min_element(
      circle.begin(), circle.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::rotate(circle.begin(), lowest, circle.end());
  // A rank that has left out a collective that another one waits in is at fault, whatever it waits
  // for itself.
  for (const DiagnosticRecord& its : circle)
    if (const auto behind = find_behind(its))
      return {.kind = Verdict::Kind::behind, .rank = *behind, .witness = its.rank};
  const DiagnosticRecord& first = circle.front();
  const Verdict each_other{
      .kind = Verdict::Kind::circle, .rank = first.rank, .witness = first.rank};
  const auto collective = std::find_if(circle.begin(), circle.end(),
                                       [](const auto& its) { return !is_message(its.call); });
  if (collective == circle.end()) return each_other;
  // Blocks of a collective may wait for different peers, and each rank shows one of its waits: such
  // a circle does not tell where the waits of its ranks' other blocks end. A rank outside that
  // shows none does.
  std::vector<int> silent, late;
  for (int rank = 0; rank < board_.ranks(); ++rank)
    if (!board_.record(rank)) (is_silent(rank) ? silent : late).push_back(rank);
  for (const std::vector<int>* candidates : {&silent, &late})
    if (candidates->size() == 1)
      return {.kind = kind_of(candidates->front(), *collective),
              .rank = candidates->front(),
              .witness = collective->rank};
  return each_other;
}

Watchdog::Report Watchdog::report_of(const Board::Verdict& verdict) const {
  const DiagnosticRecord record = board_.record(verdict.witness).value_or(shared_->record);
  const std::string call = describe_number(record.call);
  const std::string_view departure = board_.departure(verdict.rank);
  const std::string missing =
      fmt::format("rank {} {}", verdict.rank, departure.empty() ? "is missing" : departure);
  switch (verdict.kind) {
    case Board::Verdict::Kind::missing:
      return {missing, record, ""};
    case Board::Verdict::Kind::behind:
      return {missing, record,
              "\n  calls of 0 elements are not counted: PLAIT_CHECK=1 compares counts"};
    case Board::Verdict::Kind::silent:
      return {missing, record,
              fmt::format("\n  rank {} has enqueued {}, but its process does not answer: it is "
                          "stopped, or gets no processor",
                          verdict.rank, call)};
    case Board::Verdict::Kind::late:
      return {fmt::format("rank {} has not come so far", verdict.rank), record,
              fmt::format("\n  all ranks have enqueued {}, but the stream of rank {} has not come "
                          "to it: what is ahead of it there may wait "
                          "for a call that another rank has behind this one",
                          call, verdict.rank)};
    case Board::Verdict::Kind::circle:
      break;
  }
  std::vector<std::string> waits;
  bool messages = true;
  for (DiagnosticRecord its = record; waits.empty() || its.rank != record.rank;
       its = *board_.record(its.peer)) {
    waits.push_back(fmt::format("{} for rank {}", its.rank, its.peer));
    messages = messages && is_message(its.call);
  }
  return {waits.size() == 2
              ? fmt::format("ranks {} and {} wait for each other", record.rank, record.peer)
              : fmt::format("ranks wait for each other in a circle, {}", fmt::join(waits, ", ")),
          record,
          messages ? "\n  messages that must proceed at once, as when all send first, belong into "
                     "one send_recv or a group"
                   : ""};
}

std::string Watchdog::waiting(const DiagnosticRecord& record) const {
  return fmt::format("in {} ({}) block {} waits at step {} for rank {} (expected {}, saw {})",
                     describe_number(record.call), algorithms_.at(record.algorithm), record.block,
                     record.step, record.peer, record.expected, record.seen);
}

}  // namespace plait
