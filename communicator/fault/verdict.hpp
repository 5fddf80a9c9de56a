// The verdict on a timeout: which rank is the culprit, and how the error says so. Pure functions
// over a snapshot of the board, so they are tested without threads and ranks.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/device/launch_types.hpp"

namespace plait {

/// The announcement that a rank has made about itself. `left`: it has destroyed the communicator;
/// `ending`: its process ends without having destroyed it; `aborted`: its communicator is broken,
/// for any reason but a timeout; `gave_up`: a spin, its own or a peer's, ran out of time.
enum class RankState : std::uint32_t { working, left, ending, aborted, gave_up };

/// "has destroyed the communicator", or how else a rank has left that will make no further call;
/// empty for all other states.
std::string_view departure_of(RankState state) noexcept;

/// One rank's page of the board.
struct RankSnapshot {
  RankState state = RankState::working;
  bool alive = true;                       // as Board::is_alive
  std::uint64_t calls = 0;                 // collectives that it has enqueued
  std::optional<DiagnosticRecord> record;  // where its kernel waited when it gave up
  bool is_here = true;                     // on this node
  std::string name;                        // as Nodes::name_of_rank
  std::string description;                 // as Board::describe
  std::string elsewhere{};                 // as Board::elsewhere

  /// Its process has ended without an announcement. (A rank that gave up ends because of that.)
  bool is_lost() const { return !alive && state == RankState::working; }
  /// It has not heard that others have given up. Hearing takes its monitor one period.
  bool is_silent() const { return state == RankState::working && !record; }
  /// The same of a rank of another node, so what is known of its calls may be old.
  bool is_out_of_reach() const { return !is_here && is_silent(); }
};

/// The pages of all ranks at one moment, by rank.
class BoardSnapshot {
 public:
  explicit BoardSnapshot(std::vector<RankSnapshot> pages) : pages_(std::move(pages)) {}
  int ranks() const { return static_cast<int>(pages_.size()); }
  const RankSnapshot& operator[](int rank) const { return pages_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<RankSnapshot> pages_;
};

/// The cause of a timeout, which shows in the record of rank `witness`. `missing`: rank `rank` does
/// not come; `behind`: it has not made the collective; `silent`: it has, and its process does not
/// answer; `late`: it has, and its process answers, but no kernel of it waits; `circle`: ranks wait
/// for each other, and `rank` is the lowest of them; `out_of_reach`: it is on another node and does
/// not answer; `ended`: its kernel of that call, one of the program's own, has ended.
struct Verdict {
  enum class Kind : std::uint8_t {
    missing,
    behind,
    silent,
    late,
    circle,
    out_of_reach,
    ended
  } kind;
  int rank, witness;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// The record of the lowest rank whose own time was over. Several ranks may notice that at once,
/// and all must report the same one.
std::optional<DiagnosticRecord> first_out_of_time(const BoardSnapshot& board);

/// Follows the waits: from `first` to the rank that it waits for, from there to the next, up to a
/// rank that does not wait. A rank that has not made a collective is waited for by all ranks in it,
/// so the search jumps to it. A kernel of the program's own may end and leave another rank's block
/// waiting: then its rank waits in a later call, or nowhere. `algorithms`: their names, by the
/// numbers in records.
Verdict find_culprit(const BoardSnapshot& board, const DiagnosticRecord& first,
                     const std::vector<std::string>& algorithms);

/// The text of the error: the culprit, the wait in `witness` (the record of rank
/// `verdict.witness`), one line per rank, and a hint.
std::string describe_timeout(const BoardSnapshot& board, const Verdict& verdict,
                             const DiagnosticRecord& witness,
                             const std::vector<std::string>& algorithms,
                             std::chrono::nanoseconds timeout);

}  // namespace plait
