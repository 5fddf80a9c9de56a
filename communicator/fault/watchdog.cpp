#include "communicator/fault/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <thread>
#include <utility>

#include "communicator/fault/monitor.hpp"
#include "communicator/fault/verdict.hpp"
#include "communicator/observe/call_number.hpp"
#include "core/log.hpp"

namespace plait {
namespace {

/// A difference between two calls that their descriptions don't show.
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
                   std::chrono::nanoseconds timeout, int rank, int ranks_per_device,
                   bool spans_nodes)
    : backend_(std::move(backend)),
      owned_board_(std::move(board)),
      board_(*owned_board_),
      algorithms_(std::move(algorithms)),
      shared_(allocate_pinned<Shared>(backend_, 1)),
      claimed_(claimed),
      timeout_(timeout),
      rank_(rank),
      ranks_per_device_(ranks_per_device),
      spans_nodes_(spans_nodes) {}

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

/// Runs `body` with the lock held. If that breaks the communicator, logs the error and passes an
/// abort on to the children, both without the lock.
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
    if (family_ == nullptr) {
      family_ = std::make_shared<Family>();
      family_->members.push_back(weak_from_this());
    }
    const std::scoped_lock joining(child->mutex_, family_->mutex);
    child->family_ = family_;
    std::erase_if(family_->members, [](const auto& other) { return other.expired(); });
    family_->members.push_back(child);
  }
  if (error && error->code() == ErrorCode::aborted) child->abort_with_parent(*error, told);
}

void Watchdog::abort(ErrorCode code, const std::string& why, bool asked) {
  locked([&] {
    if (!error_ && asked) *told_ = true;
    break_with(code, why, Board::State::aborted);
  });
}

std::optional<Error> Watchdog::await_report() {
  // A kernel that was told to give up ends early, and so does its caller's wait for it. The other
  // ranks may not have shown yet where they wait.
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

void Watchdog::lose_connection(int rank, const std::string& what, const Error& why) {
  board_.lose(rank);
  locked([&] {
    if (error_) return;
    switch (board_.state(rank)) {
      case Board::State::aborted:  // it has said why before it ended
        return break_with(board_.reason(rank).code(), board_.reason(rank).what(),
                          Board::State::aborted);
      case Board::State::gave_up:
        if (!timeout_of_) begin_timeout(rank);
        return;
      case Board::State::working:
        return break_with(ErrorCode::rank_lost,
                          fmt::format("{}: {}; the communicator is broken", what, why.what()),
                          Board::State::aborted);
      case Board::State::left:
      case Board::State::ending:
        return;  // `look` finds out whether a call waits for it
    }
  });
}

void Watchdog::note_unanswered(int rank, const std::string& name, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (why.empty()) unanswered_.erase(rank);
  else unanswered_[rank] = fmt::format("{} is not reached: {}", name, why);
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

/// A clock that ticks every few milliseconds. Reading it takes a fifth of the time that reading the
/// exact one takes.
std::int64_t coarse_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void Watchdog::compare_now_and_then() {
  constexpr unsigned skips = 15;
  const std::int64_t now = coarse_nanoseconds();
  if (now == compared_at_ && skipped_ < skips && !refusal_is_pending()) {
    ++skipped_;
    return;
  }
  compared_at_ = now;
  skipped_ = 0;
  compare();
}

void Watchdog::compare_calls() {
  const auto found = board_.compare();
  if (!found) return;
  const bool refused = found->exact && (found->mine.is_refused() || found->theirs.is_refused());
  break_with(
      ErrorCode::mismatch,
      (refused ? describe_refusal(*found) : describe(*found)) + "; the communicator is broken",
      Board::State::aborted);
}

namespace {

/// The verb for what this rank, or the other one, does.
std::string_view verb(const Board::Disagreement& found, bool mine) {
  using Kind = Board::Disagreement::Kind;
  if (found.kind == Kind::collective) return "calls";
  return (found.kind == Kind::sent) == mine ? "sends" : "receives";
}

}  // namespace

std::string Watchdog::describe(const Board::Disagreement& found) const {
  using Kind = Board::Disagreement::Kind;
  const bool sent = found.kind == Kind::sent;
  const std::string what = found.kind == Kind::collective
                               ? fmt::format("call {}", found.call)
                               : fmt::format("message {} from rank {} to rank {}", found.call,
                                             sent ? rank_ : found.rank, sent ? found.rank : rank_);
  return fmt::format("ranks disagree {}{}: rank {} {} {}; rank {} {} {}{}",
                     found.exact ? "in " : "before ", what, rank_, verb(found, true),
                     found.mine.describe(algorithms_), found.rank, verb(found, false),
                     found.theirs.describe(algorithms_), difference(found));
}

/// One of the two ranks has refused the call.
std::string Watchdog::describe_refusal(const Board::Disagreement& found) const {
  const bool mine = found.mine.is_refused();
  const int refuser = mine ? rank_ : found.rank, other = mine ? found.rank : rank_;
  const std::string what =
      found.kind == Board::Disagreement::Kind::collective ? fmt::format("call {}", found.call)
      : verb(found, mine) == "sends" ? fmt::format("message {} to rank {}", found.call, other)
                                     : fmt::format("message {} from rank {}", found.call, other);
  return fmt::format("rank {}'s {} was refused{}; rank {} {} {}", refuser, what,
                     board_.why_refused(refuser, mine ? found.mine : found.theirs), other,
                     verb(found, !mine), (mine ? found.theirs : found.mine).describe(algorithms_));
}

/// The kernel refused to copy from the peer's buffer. The peer's own process, if it read that
/// buffer, would end by a signal.
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

void Watchdog::introduce(std::string name, std::function<bool()> runs) {
  name_ = std::move(name);
  runs_ = std::move(runs);
}

std::optional<std::string> Watchdog::describe_wait() const {
  const DiagnosticRecord& record = shared_->record;
  if (const auto state = std::atomic_ref(shared_->record.state).load(std::memory_order_acquire);
      state == out_of_time || state == told_to)
    return fmt::format("{}: rank {} waited in {} for rank {}", name_, rank_,
                       describe_number(record.call), record.peer);
  if (is_broken() || !runs_ || !runs_()) return std::nullopt;
  const std::vector<int> behind = board_.behind();
  return fmt::format(
      "{}: rank {} waits in call {} for {}", name_, rank_, board_.calls(rank_),
      behind.empty() ? std::string("a rank that has made it, too")
      : behind.size() == 1
          ? fmt::format("rank {}, which has not made it", behind.front())
          : fmt::format("ranks {}, which have not made it", fmt::join(behind, ", ")));
}

std::string Watchdog::waits_elsewhere() const {
  std::vector<std::weak_ptr<Watchdog>> relatives;
  if (family_ != nullptr) {
    const std::lock_guard lock(family_->mutex);
    relatives = family_->members;
  }
  for (const auto& relative : relatives)
    if (const auto other = relative.lock(); other != nullptr && other.get() != this)
      if (auto wait = other->describe_wait()) return *std::move(wait);
  return {};
}

/// Ends the kernels of this rank and, through the peers' watchdogs, theirs, so that all show where
/// they wait.
void Watchdog::begin_timeout(int rank) {
  if (const std::string elsewhere = waits_elsewhere(); !elsewhere.empty())
    board_.say_elsewhere(elsewhere);
  std::atomic_ref(shared_->abort).store(1, std::memory_order_release);
  if (rank == rank_) board_.show(shared_->record);
  board_.announce(Board::State::gave_up);
  timeout_of_ = rank;
  report_by_ = std::chrono::steady_clock::now() + (spans_nodes_ ? 20 : 4) * monitor_period;
}

/// Ends the wait for reports once all ranks have shown where they wait, or once the time for that
/// is over, because a rank that is in no call shows nothing.
void Watchdog::finish_timeout() {
  if (std::chrono::steady_clock::now() < report_by_)
    for (int rank = 0; rank < board_.ranks(); ++rank)
      if (!board_.record(rank) && board_.departure(rank).empty() && board_.is_alive(rank)) return;
  const Verdict verdict = reach_verdict();
  // A new snapshot, because the verdict may be a peer's, reached from records that came later.
  const BoardSnapshot board = board_.snapshot(algorithms_);
  const DiagnosticRecord witness = board[verdict.witness].record.value_or(shared_->record);
  std::string text = describe_timeout(board, verdict, witness, algorithms_, timeout_);
  if (!unanswered_.empty()) {  // those of other ranks have the same cause
    const auto of_culprit = unanswered_.find(verdict.rank);
    text += "\n  " + (of_culprit == unanswered_.end() ? unanswered_.begin() : of_culprit)->second;
  }
  // Two ranks' blocks always fit: see docs/invariants.md.
  if (ranks_per_device_ > 2)
    text += fmt::format(
        "\n  {} ranks share a GPU: unless each has its share of the multiprocessors, their blocks "
        "may not all fit on it, and wait for each other (tools/mps-run.sh gives the shares)",
        ranks_per_device_);
  break_with(ErrorCode::timeout, text, Board::State::gave_up);
}

/// Publishes the verdict, so ranks that report later name the same culprit.
Verdict Watchdog::reach_verdict() {
  if (const auto settled = board_.settled()) return *settled;
  const BoardSnapshot board = board_.snapshot(algorithms_);
  const DiagnosticRecord first =
      first_out_of_time(board).value_or(board[*timeout_of_].record.value_or(shared_->record));
  return board_.settle(find_culprit(board, first, algorithms_));
}

}  // namespace plait
