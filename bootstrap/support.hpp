// What the implementations of Bootstrap share: deadlines, argument checks and the wording of errors.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace plait::detail {

/// The end of a wait that began at construction. A limit of zero never ends.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(std::chrono::nanoseconds limit);
  bool expired() const { return end_ && Clock::now() >= *end_; }
  const std::optional<Clock::time_point>& end() const noexcept { return end_; }
  /// Time left as an argument for `poll()`: at least 0, at most `most`.
  int milliseconds_left(int most) const;

 private:
  std::optional<Clock::time_point> end_;
};

inline constexpr std::chrono::milliseconds interrupt_period{5};  // Bootstrap::throw_if_interrupted

/// How to wait between polls: first not at all, then giving the core away, at last asleep.
class Backoff {
 public:
  void pause();

 private:
  unsigned polls_ = 0;
};

/// "rank 3" or "ranks 1, 3, 4".
std::string list_ranks(const std::vector<int>& ranks);
/// "0.25 s".
std::string in_seconds(std::chrono::nanoseconds time);

/// Throw `Error(invalid_argument)` before anything is sent.
void check_all_gather(int rank, int size, const void* in, const void* out, std::size_t bytes);
void check_broadcast(int rank, int size, const void* data, std::size_t bytes, int root);

/// What a rank passes to `split`, and the place it gets.
struct SplitKey {
  int color;
  int key;
};
/// The ranks of `rank`'s color in the order of the new group.
std::vector<int> split_members(const std::vector<SplitKey>& keys, int rank);

}  // namespace plait::detail
