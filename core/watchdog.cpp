#include "core/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/call_number.hpp"
#include "core/log.hpp"
#include "core/monitor.hpp"

namespace plait {
namespace {

/// What the descriptions of two calls that differ do not show.
std::string_view difference(const CallLogs::Difference& found) {
  if (!found.exact || found.mine.count != found.theirs.count || found.mine.facts != found.theirs.facts) return "";
  if (found.mine.place != found.theirs.place) {
    if (found.mine.collective() == Collective::gather || found.mine.collective() == Collective::scatter)
      return ", at another place in symmetric memory: its offset must be the same on all ranks, also in place, where all pass the root's";
    return ", at another place in symmetric memory: its offset must be the same on all ranks";
  }
  return ", with another scale, launch shape or company in a group";
}

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Backend> backend, std::shared_ptr<Board> board, std::vector<std::string> algorithms,
                   std::uint32_t* claimed, std::chrono::nanoseconds timeout, int rank)
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

bool Watchdog::kernel_gave_up(GaveUp why) const { return std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) == why; }

void Watchdog::break_with(ErrorCode code, const std::string& why, Board::State state) {
  std::atomic_ref(shared_->abort).store(1, std::memory_order_release);
  board_.announce(state, code, why);
  if (error_) return;
  error_.emplace(code, why);
  is_news_ = true;
  broken_ = true;
}

/// Runs `body` with the lock held. If it breaks the communicator, says so and passes an abort on, both without the lock.
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

std::optional<Error> Watchdog::error() {
  // A kernel that was told to give up ends before all ranks have shown where they wait, and with it what its caller waits for.
  if (!broken_ && !kernel_gave_up(out_of_time) && !kernel_gave_up(told_to)) return std::nullopt;
  for (;;) {
    std::optional<Error> found;
    locked([&] {
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
  if (std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) != 0) board_.show(shared_->record);
  if (!error_) compare_calls();
  if (error_) return;
  if (timeout_of_) return finish_timeout();
  if (kernel_gave_up(out_of_time)) return begin_timeout(rank_);
  for (int rank = 0; rank < board_.ranks(); ++rank) {
    if (rank == rank_) continue;
    switch (board_.state(rank)) {
      case Board::State::aborted:
        return break_with(board_.reason(rank).code(), board_.reason(rank).what(), Board::State::aborted);
      case Board::State::gave_up:
        return begin_timeout(rank);
      case Board::State::working:
        if (board_.is_lost(rank)) return lose(rank, "");
        break;
      case Board::State::left:
      case Board::State::ending:
        if (const auto call = board_.waits_in_vain_for(rank, algorithms_)) return lose(rank, "; " + *call);
        break;
    }
  }
}

void Watchdog::lose(int rank, const std::string& call) {
  break_with(ErrorCode::rank_lost, fmt::format("{}{}; the communicator is broken", board_.describe(rank, algorithms_), call),
             Board::State::aborted);
}

void Watchdog::compare() {
  if (broken_) return;
  locked([this] {
    if (!error_) compare_calls();
  });
}

void Watchdog::compare_calls() {
  using Kind = Board::Disagreement::Kind;
  const auto found = board_.compare();
  if (!found) return;
  const bool collective = found->kind == Kind::collective, sent = found->kind == Kind::sent;
  const std::string what =
      collective ? fmt::format("call {}", found->call)
                 : fmt::format("message {} from rank {} to rank {}", found->call, sent ? rank_ : found->rank, sent ? found->rank : rank_);
  break_with(ErrorCode::mismatch,
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

/// Ends the kernels of this rank and, through their watchdogs, of its peers, so that they show where they wait.
void Watchdog::begin_timeout(int rank) {
  std::atomic_ref(shared_->abort).store(1, std::memory_order_release);
  if (rank == rank_) board_.show(shared_->record);
  board_.announce(Board::State::gave_up);
  timeout_of_ = rank;
  report_by_ = std::chrono::steady_clock::now() + 4 * monitor_period;
}

/// Once all ranks have shown where they wait. One that is in no call shows nothing, so at last without it.
void Watchdog::finish_timeout() {
  if (std::chrono::steady_clock::now() < report_by_)
    for (int rank = 0; rank < board_.ranks(); ++rank)
      if (!board_.record(rank) && board_.departure(rank).empty() && board_.is_alive(rank)) return;
  const Culprit culprit = find_culprit(first_record());
  const DiagnosticRecord& record = culprit.record;
  if (culprit.missing) board_.blame({.missing = *culprit.missing, .witness = record.rank});
  std::string text = fmt::format(
      "{}: in {} ({}) rank {} waited {:.3g} s for rank {}, in block {} at step {} (expected {}, saw {}); the communicator is broken",
      culprit.says, describe_number(record.call), algorithms_.at(record.algorithm), record.rank,
      std::chrono::duration<double>(timeout_).count(), record.peer, record.block, record.step, record.expected, record.seen);
  for (int rank = 0; rank < board_.ranks(); ++rank) {
    text += "\n  " + board_.describe(rank, algorithms_);
    if (const auto its = board_.record(rank)) text += "; " + waiting(*its);
  }
  break_with(ErrorCode::timeout, text + culprit.hint, Board::State::gave_up);
}

/// Of the lowest rank whose time was over: several may have found that out at once, and all are to report the same.
DiagnosticRecord Watchdog::first_record() const {
  for (int rank = 0; rank < board_.ranks(); ++rank)
    if (const auto its = board_.record(rank); its && its->state == out_of_time) return *its;
  return board_.record(*timeout_of_).value_or(shared_->record);
}

/// In a collective all ranks wait for the one that is behind; in a message, for whoever the peer waits for in turn.
Watchdog::Culprit Watchdog::find_culprit(const DiagnosticRecord& record) const {
  const Chain chain = follow(record.peer);
  const auto missing_in = [&](int missing, const DiagnosticRecord& its) {
    const bool behind = !is_message(its.call) && board_.calls(missing) < plain_number(its.call);
    const std::string_view departure = board_.departure(missing);
    return Culprit{.says = fmt::format("rank {} {}", missing, departure.empty() ? "is missing" : departure),
                   .record = its,
                   .missing = missing,
                   .hint = behind ? "\n  calls of 0 elements are not counted: PLAIT_CHECK=1 compares counts" : ""};
  };
  // The missing rank may have come, and others have ended, since it was reported.
  if (const auto blame = board_.blamed()) return missing_in(blame->missing, board_.record(blame->witness).value_or(record));
  if (chain.circle.size() > 1 && chain.messages != 0) {
    // Who has left out a collective that another one waits in is at fault, whatever it waits for itself.
    for (const int rank : chain.circle)
      if (const DiagnosticRecord its = *board_.record(rank); !is_message(its.call) && board_.calls(its.peer) < plain_number(its.call))
        return missing_in(its.peer, its);
    std::vector<std::string> waits;
    for (const int rank : chain.circle) waits.push_back(fmt::format("{} for rank {}", rank, board_.record(rank)->peer));
    return {.says = chain.circle.size() == 2 ? fmt::format("ranks {} and {} wait for each other", chain.circle[0], chain.circle[1])
                                             : fmt::format("ranks wait for each other in a circle, {}", fmt::join(waits, ", ")),
            .record = *board_.record(chain.circle.front()),
            .missing = std::nullopt,
            .hint = chain.messages == chain.circle.size()
                        ? "\n  messages that must proceed at once, as when all send first, belong into one send_recv or a group"
                        : ""};
  }
  return missing_in(is_message(record.call) ? chain.last : board_.missing_rank(record.peer), record);
}

/// From one that waits to whom it waits for, and so on.
Watchdog::Chain Watchdog::follow(int rank) const {
  std::vector<int> path;
  for (;;) {
    const auto its = board_.record(rank);
    if (!its || board_.is_lost(rank)) return {.last = rank};
    const auto before = std::find(path.begin(), path.end(), rank);
    if (before == path.end()) {
      path.push_back(std::exchange(rank, its->peer));
      continue;
    }
    Chain chain{.last = rank, .circle{before, path.end()}};
    // The same on all ranks, wherever they came in.
    std::rotate(chain.circle.begin(), std::min_element(chain.circle.begin(), chain.circle.end()), chain.circle.end());
    chain.messages = static_cast<std::size_t>(
        std::count_if(chain.circle.begin(), chain.circle.end(), [&](int one) { return is_message(board_.record(one)->call); }));
    return chain;
  }
}

std::string Watchdog::waiting(const DiagnosticRecord& record) const {
  return fmt::format("in {} ({}) block {} waits at step {} for rank {} (expected {}, saw {})", describe_number(record.call),
                     algorithms_.at(record.algorithm), record.block, record.step, record.peer, record.expected, record.seen);
}

}  // namespace plait
