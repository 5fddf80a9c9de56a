// How the other ranks hear of a rank's calls: numbers and signatures on the board.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/fault/board.hpp"
#include "communicator/groups/group_plan.hpp"
#include "communicator/resources/algorithm_list.hpp"

namespace plait {

/// For one thread at a time, the one inside the communicator.
class CallPublisher {
 public:
  CallPublisher(Board& board, int rank, const AlgorithmList& algorithms)
      : board_(board), rank_(rank), algorithms_(algorithms) {}

  /// Numbers the calls in the order in which they were made, and publishes them, once per plan. A
  /// published call must be enqueued, or the communicator must break, because the other ranks count
  /// on it.
  void publish(GroupPlan& plan);

  /// `own_message`: no other rank hears of it.
  enum class Kind { collective, message, own_message, empty_message };
  /// What the other ranks hear of a collective, or of one end of a message.
  struct Announcement {
    Kind kind;
    bool sends;  // a message
    int peer;
    Signature signature;
  };
  std::vector<Announcement> announcements_of(const GroupPlan& plan) const;
  /// Publishes a call outside a group. Returns the number of the announcement at `first`.
  std::uint64_t publish(std::span<const Announcement> all, std::size_t first);

  /// Gives a call that this rank refuses its number.
  void publish_refused(const RefusedNumbers& numbers, std::string_view why);

  /// The number of call `i` of the plan that was published last. A collective has the same number
  /// on all ranks; each rank numbers its messages itself (observe/call_number.hpp).
  std::uint64_t number_of(std::size_t i) const { return numbers_[i]; }
  /// Calls published so far. A call of several messages counts once, an empty message does not.
  std::uint64_t calls() const noexcept { return calls_; }

 private:
  Signature sign(const GroupedCall& grouped, const GroupPlan& plan) const;
  Announcement announcement_of(const GroupedCall& grouped, const GroupPlan& plan) const;
  std::uint64_t publish(const Announcement& one);

  Board& board_;
  int rank_;
  const AlgorithmList& algorithms_;
  std::uint64_t collectives_ = 0, messages_ = 0, calls_ = 0;
  std::vector<std::uint64_t> numbers_;  // of the plan's calls
};

}  // namespace plait
