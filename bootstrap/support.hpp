// Shared by the implementations of Bootstrap: deadlines, argument checks and the wording of errors.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backoff.hpp"
#include "plait/bootstrap.hpp"

namespace plait::detail {

/// The end of a wait that begins at construction. A limit of zero never ends.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(std::chrono::nanoseconds limit);
  bool expired() const { return end_ && Clock::now() >= *end_; }
  const std::optional<Clock::time_point>& end() const noexcept { return end_; }
  /// The time left, as an argument of `poll()`: at least 0, at most `most`.
  int milliseconds_left(int most) const;

 private:
  std::optional<Clock::time_point> end_;
};

/// A rank that waits calls Bootstrap::throw_if_interrupted once per period.
inline constexpr std::chrono::milliseconds interrupt_period{5};

/// For loops that poll for other ranks. A rank that has waited for a tenth of a second polls once a
/// millisecond, because it may wait for minutes.
inline constexpr Backoff::Pace bootstrap_pace{
    .spins = 100, .sleep = std::chrono::microseconds(100), .longest = 10};

/// The name of each rank's node; empty if errors need not name nodes.
using NodeNames = std::span<const std::string>;

/// "rank 3", "ranks 1, 3, 4", or "ranks 1, 3 on node n0, rank 4 on node n1".
std::string list_ranks(const std::vector<int>& ranks, NodeNames nodes = {});
/// "rank 3: ..." for what rank 3 says, unless its words name it already: "all_reduce: rank 3: ...".
inline std::string as_said_by(int rank, const std::string& words) {
  const std::string name = "rank " + std::to_string(rank) + ": ";
  return words.find(name) == std::string::npos ? name + words : words;
}
/// Throws Error(bootstrap), "poll: Cannot allocate memory", by `errno`.
[[noreturn]] void throw_errno(std::string_view call);
/// "0.25 s".
std::string in_seconds(std::chrono::nanoseconds time);

/// Both throw `Error(invalid_argument)` before anything is sent.
void check_all_gather(int rank, int size, const void* in, const void* out, std::size_t bytes);
void check_broadcast(int rank, int size, const void* data, std::size_t bytes, int root);

enum class CallKind : std::uint32_t { all_gather, broadcast, barrier, split };
/// "Bootstrap::all_gather".
const char* name_of(CallKind kind);

/// Names the call that a rank is in. The ranks compare it in every call, so two ranks in different
/// calls don't take each other's data.
struct CallId {
  CallKind kind = CallKind::all_gather;
  std::int32_t root = 0;
  std::uint64_t bytes = 0;
  std::array<char, 48> purpose{}, step{};  // the outermost and the innermost purpose

  CallId() = default;
  CallId(CallKind call, std::uint64_t data, int from, const std::vector<const char*>& purposes);
  bool operator==(const CallId&) const = default;
};

/// `calls`: the call of each rank, where it is known. Names the lowest known rank and the first one
/// whose call differs: "rank 0 is in allocate, rank 2 in split". None if no call differs.
std::optional<std::string> find_disagreement(std::span<const std::optional<CallId>> calls);

/// Once ranks know that their calls differ, they still wait this long for the ranks that have not
/// come, so that all ranks find the same two.
inline constexpr std::chrono::milliseconds mismatch_grace{500};

/// "rank 2 did not arrive at Bootstrap::barrier within 0.3 s".
std::string not_arrived(const std::vector<int>& ranks, const char* call,
                        std::chrono::nanoseconds limit, NodeNames nodes = {});
/// "rank 2 ended before it arrived at Bootstrap::barrier".
std::string ended_before(const std::vector<int>& ranks, const char* call, NodeNames nodes = {});
/// "rank 2 left the group (the Bootstrap was destroyed)".
std::string has_left(const std::vector<int>& ranks, NodeNames nodes = {});
/// "rank 2 gave up: ...".
std::string gave_up(int rank, const char* why);

/// PLAIT_TIMEOUT, else 10 minutes. Throws Error(invalid_argument) if it is malformed.
std::chrono::nanoseconds timeout_of_environment();
/// The limit of a meeting: `wanted`, else that. If it is malformed, 10 minutes, and the `failure`:
/// the others wait for this rank, so it must come and tell them.
std::chrono::nanoseconds limit_of_meeting(std::optional<std::chrono::nanoseconds> wanted,
                                          std::string& failure);

/// A number that no other call draws.
std::uint64_t draw_number();
/// Another number, by SplitMix64: a bijection.
std::uint64_t mixed(std::uint64_t number);

/// A node's name at a fixed size, so it can be gathered. A longer name is cut, so only its first
/// bytes count.
using NodeName = std::array<char, 256>;
NodeName name_this_node();

/// A rank's arguments of `split`, and the other facts that its peers need.
struct SplitKey {
  int color;
  int key;
  int node;
  std::uint64_t drawn;  // rank 0's names the new groups
};
/// The ranks of `rank`'s color in the order of the new group.
std::vector<int> split_members(const std::vector<SplitKey>& keys, int rank);
/// The node of each member.
std::vector<int> nodes_of(const std::vector<SplitKey>& keys, const std::vector<int>& members);

}  // namespace plait::detail
