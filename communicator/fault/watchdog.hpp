// Breaks a communicator and says why: after a deadline, a lost peer, calls that differ or an abort.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/fault/board.hpp"
#include "communicator/fault/verdict.hpp"
#include "plait/error.hpp"
#include "symm_mem/own_memory.hpp"

namespace plait {

/// Holds the words through which host and kernels end a spin, and the error that follows. The first
/// error stays. All methods but `compare_now_and_then` may be called from any thread. It is
/// destroyed after the end of all launches that got a `watch`.
class Watchdog : public std::enable_shared_from_this<Watchdog> {
 public:
  /// `algorithms`: their names, by the numbers that launches carry. `claimed`: a word of device
  /// memory, zero. `ranks_per_device`: as in Topology.
  Watchdog(std::shared_ptr<Backend> backend, std::shared_ptr<Board> board,
           std::vector<std::string> algorithms, std::uint32_t* claimed,
           std::chrono::nanoseconds timeout, int rank, int ranks_per_device,
           bool spans_nodes = false);

  /// The argument for a launch of call `call` by algorithm number `algorithm`.
  Watch watch(std::uint64_t call, std::uint32_t algorithm) const;

  /// Breaks the communicator: kernels of this rank end, later calls throw `Error(code, why)`, and
  /// the peers' watchdogs hear of it. `asked`: by the program, so the error counts as told.
  void abort(ErrorCode code, const std::string& why, bool asked = true);

  /// Breaks the communicator, because the connection to a rank of another node is gone. `what`:
  /// "rank 5 on node n1 is gone".
  void lose_connection(int rank, const std::string& what, const Error& why);

  /// A connection to that rank is not answered: `why` says where, and what helps. Empty: it is now.
  /// The report of a deadline says so.
  void note_unanswered(int rank, const std::string& name, const std::string& why);

  /// Answers for other communicators of the same ranks: `name`, such as "the part of ranks 2, 3
  /// (its ranks 0, 1)", and whether a kernel runs. Before any other call.
  void introduce(std::string name, std::function<bool()> runs);
  /// Where this rank waits: "in the part of ranks 2, 3 (its ranks 0, 1): rank 0 waits in call 5 for
  /// rank 1, which has not made it". None if it does not wait. Takes no lock of this object.
  std::optional<std::string> describe_wait() const;

  /// Passes aborts of this communicator on to `child`, also one that came before. The two ask each
  /// other where this rank waits.
  void add_child(const std::shared_ptr<Watchdog>& child);

  /// The error that broke the communicator; none, at once, while it is whole. After a deadline this
  /// starts the report and sleeps until the peers have shown where they wait: up to some tenths of
  /// a second.
  std::optional<Error> await_error() { return is_broken() ? await_report() : std::nullopt; }
  /// Costs two loads.
  bool is_broken() const noexcept {
    return broken_.load(std::memory_order_acquire) ||
           std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) != 0;
  }

  /// Notes that the program has been told of the error. The destructor of a communicator logs an
  /// error that was never told.
  void tell() const;
  /// Also true where an abort of the parent broke this communicator and the program was told of
  /// that.
  bool was_told() const;

  /// Breaks the communicator if a peer has ended, left, aborted or given up while this rank needs
  /// it, or if a peer has made another call than this rank. The monitor calls this every
  /// `monitor_period`.
  void look();
  /// Breaks the communicator if calls differ. All ranks that took part in a call have published it
  /// before the call ends.
  void compare();
  /// The same for a caller that waits after each of many small calls: compares on every sixteenth
  /// call, whenever some milliseconds have passed since the last comparison, and while a refusal is
  /// pending. One thread at a time. Not on every call, because reading a line that a peer has just
  /// written takes half as long as a barrier (0.2 us of 0.5 us, 2 ranks on an AMD EPYC;
  /// 2026-11-24).
  void compare_now_and_then();
  /// As Board's.
  bool refusal_is_pending() const noexcept { return board_.refusal_is_pending(); }

 private:
  struct Shared {  // host memory that kernels reach
    std::uint32_t abort;
    DiagnosticRecord record;
  };

  std::optional<Error> await_report();
  template <class Body>
  void locked(Body body);
  void look_locked();
  using Told = std::shared_ptr<std::atomic<bool>>;
  void abort_with_parent(const Error& error, const Told& told);
  bool kernel_gave_up(GaveUp why) const;
  void break_with(ErrorCode code, const std::string& why, Board::State state);
  void lose(int rank, const std::string& call);
  void compare_calls();
  std::string describe(const Board::Disagreement& found) const;
  std::string describe_refusal(const Board::Disagreement& found) const;
  void report_unreadable();
  std::string waits_elsewhere() const;
  void begin_timeout(int rank);
  void finish_timeout();
  Verdict reach_verdict();

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Board> owned_board_;
  Board& board_;
  std::vector<std::string> algorithms_;
  PinnedMemory<Shared> shared_;
  std::uint32_t* claimed_;
  std::chrono::nanoseconds timeout_;
  int rank_, ranks_per_device_;
  bool spans_nodes_;  // so news of other ranks take longer
  mutable std::mutex mutex_;
  std::optional<int> timeout_of_;  // the rank whose kernel ran out of time, during the report
  std::chrono::steady_clock::time_point report_by_;
  std::map<int, std::string> unanswered_;  // by rank, as the report says it
  std::optional<Error> error_;
  bool is_news_ = false;              // `error_` has not been passed on yet
  std::atomic<bool> broken_ = false;  // `error_` is set
  Told told_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::weak_ptr<Watchdog>> children_;
  /// This rank's communicators that have come from one by parts and duplicates.
  struct Family {
    std::mutex mutex;
    std::vector<std::weak_ptr<Watchdog>> members;
  };
  std::shared_ptr<Family> family_;  // null: it has no relatives
  std::string name_;
  std::function<bool()> runs_;
  unsigned skipped_ = 0;          // by compare_now_and_then
  std::int64_t compared_at_ = 0;  // on the coarse clock
};

}  // namespace plait
