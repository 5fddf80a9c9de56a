// The numbers of a call that this rank refuses, on which the other ranks count.
#pragma once
#include <span>
#include <vector>

#include "plait/call.hpp"

namespace plait {

/// The numbers that a refused call takes in the place of those that it would have had. Otherwise
/// this rank's next calls would pair with the calls before them on the other ranks. A group, or a
/// call that consists of several, takes one number of each kind, because the other ranks' first
/// call of it is the one that notices.
struct RefusedNumbers {
  struct Message {
    int peer;
    bool sends;
    friend bool operator==(const Message&, const Message&) = default;
  };
  bool collective = false;
  /// One message to each other rank and one from it: of a call of all ranks that consists of
  /// messages. Which of them there are may depend on the argument that was wrong.
  bool all_messages = false;
  std::vector<Message> messages{};

  static RefusedNumbers of(const Call& call);
  /// `to`, `from`: the peers.
  static RefusedNumbers of_messages(std::span<const int> to, std::span<const int> from);
  static RefusedNumbers of_all_messages() { return {.all_messages = true}; }
  void add(const Message& message);
  void add(const RefusedNumbers& others);
  bool are_none() const { return !collective && !all_messages && messages.empty(); }
  /// The messages, also those of `all_messages`.
  std::vector<Message> messages_of(int rank, int ranks) const;
};

}  // namespace plait
