#include "communicator/fault/refused_numbers.hpp"

#include <algorithm>
#include <iterator>

namespace plait {

/// A collective without elements is numbered on no rank.
RefusedNumbers RefusedNumbers::of(const Call& call) {
  return {.collective = call.count != 0 || call.collective == Collective::barrier};
}

RefusedNumbers RefusedNumbers::of_messages(std::span<const int> to, std::span<const int> from) {
  RefusedNumbers numbers;
  for (const int peer : to) numbers.add({.peer = peer, .sends = true});
  for (const int peer : from) numbers.add({.peer = peer, .sends = false});
  return numbers;
}

void RefusedNumbers::add(const Message& message) {
  if (std::find(messages.begin(), messages.end(), message) == messages.end())
    messages.push_back(message);
}

void RefusedNumbers::add(const RefusedNumbers& others) {
  collective = collective || others.collective;
  all_messages = all_messages || others.all_messages;
  for (const Message& message : others.messages) add(message);
}

std::vector<RefusedNumbers::Message> RefusedNumbers::messages_of(int rank, int ranks) const {
  std::vector<Message> all;
  if (!all_messages) {
    // A message to the own rank has no number, and of one to a rank that isn't there nothing is
    // known.
    std::copy_if(messages.begin(), messages.end(), std::back_inserter(all),
                 [&](const Message& message) {
                   return message.peer >= 0 && message.peer < ranks && message.peer != rank;
                 });
    return all;
  }
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank) all.insert(all.end(), {{peer, true}, {peer, false}});
  return all;
}

}  // namespace plait
