// What breaks a communicator, and what it then says: a deadline, a peer that has ended, an abort.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/fault/board.hpp"
#include "plait/error.hpp"

namespace plait {

/// The words that kernels and host share to end a spin, and the error that follows. Once there is
/// one it stays: the first counts. All methods may be called from any thread.
class Watchdog {
 public:
  /// `algorithms`: their names, by the numbers that launches carry. `claimed`: a word of device
  /// memory, zero.
  Watchdog(std::shared_ptr<Backend> backend, std::shared_ptr<Board> board,
           std::vector<std::string> algorithms, std::uint32_t* claimed,
           std::chrono::nanoseconds timeout, int rank);
  /// Once all launches that got a `watch` have ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// What a launch of call `call` by algorithm number `algorithm` gets.
  Watch watch(std::uint64_t call, std::uint32_t algorithm) const;

  /// Breaks the communicator: kernels of this rank end, later calls throw `Error(code, why)`, and
  /// the peers' watchdogs hear of it. For the program, which so knows of it.
  void abort(ErrorCode code, const std::string& why);

  /// An abort reaches it as well, also one that was before.
  void add_child(const std::shared_ptr<Watchdog>& child);

  /// The error that broke the communicator, if any. After a deadline it takes up to some tenths of
  /// a second to hear where the peers were.
  std::optional<Error> error() { return is_broken() ? broken_error() : std::nullopt; }
  /// Two loads.
  bool is_broken() const noexcept {
    return broken_.load(std::memory_order_acquire) ||
           std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) != 0;
  }

  /// The program has got to know that error. What it never gets to know is logged when the
  /// communicator is destroyed.
  void tell() const;
  /// Also of what broke this communicator together with the one that it is a part of, if that has
  /// been told.
  bool was_told() const;

  /// Whether a peer has ended, left, aborted or given up while this rank needs it, or has made
  /// another call than this rank: then this rank's ends, too. Called by the monitor every now and
  /// then.
  void look();
  /// Only whether the calls are the same. Where a call has ended, all ranks that took part in it
  /// have published theirs.
  void compare();
  /// The same for a caller that waits after each of many small calls: every sixteenth time, and
  /// every time once some milliseconds have passed since the last one. By one thread at a time.
  /// Reading what a peer has just written takes as long as half a barrier (0.2 us of 0.5, 2 ranks
  /// on an AMD EPYC; 2026-11-24).
  void compare_now_and_then();

 private:
  struct Shared {  // host memory that kernels reach
    std::uint32_t abort;
    DiagnosticRecord record;
  };

  std::optional<Error> broken_error();
  template <class Body>
  void locked(Body body);
  void look_locked();
  using Told = std::shared_ptr<std::atomic<bool>>;
  void abort_with_parent(const Error& error, const Told& told);
  bool kernel_gave_up(GaveUp why) const;
  void break_with(ErrorCode code, const std::string& why, Board::State state);
  void lose(int rank, const std::string& call);
  void compare_calls();
  void report_unreadable();
  void begin_timeout(int rank);
  void finish_timeout();
  DiagnosticRecord first_record() const;
  std::optional<int> find_behind(const DiagnosticRecord& record) const;
  Board::Verdict::Kind kind_of(int rank, const DiagnosticRecord& record) const;
  bool is_silent(int rank) const;
  Board::Verdict find_culprit(const DiagnosticRecord& first) const;
  Board::Verdict find_culprit_of_circle(std::vector<DiagnosticRecord> circle) const;
  struct Report {
    std::string says;         // whose fault it is
    DiagnosticRecord record;  // of the witness
    std::string hint;         // the end of the report
  };
  Report report_of(const Board::Verdict& verdict) const;
  std::string waiting(const DiagnosticRecord& record) const;

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Board> owned_board_;
  Board& board_;
  std::vector<std::string> algorithms_;
  Shared* shared_;
  std::uint32_t* claimed_;
  std::chrono::nanoseconds timeout_;
  int rank_;
  mutable std::mutex mutex_;
  std::optional<int> timeout_of_;  // the rank whose kernel ran out of time; its report is under way
  std::chrono::steady_clock::time_point report_by_;
  std::optional<Error> error_;
  bool is_news_ = false;              // and it is to be passed on
  std::atomic<bool> broken_ = false;  // there is an error
  Told told_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::weak_ptr<Watchdog>> children_;
  unsigned skipped_ = 0;          // by compare_now_and_then
  std::int64_t compared_at_ = 0;  // on the coarse clock
};

}  // namespace plait
