// Messages between ranks, with contents that no two have in common: one rank's messages of a round.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {

/// Bytes of the message `number` from one rank to another.
inline std::byte content(std::uint64_t round, int from, int to, std::size_t number, std::size_t i) {
  const std::uint64_t h =
      hash(round, static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to),
           number * 0x10001 + i / 8);
  return static_cast<std::byte>(h >> i % 8 * 8);
}

/// One rank's messages in a round, and their peers: places in its two arrays.
class Round {
 public:
  Round(Communicator& comm, Arena& arena, std::uint64_t round)
      : comm_(comm), arena_(arena), round_(round) {}

  struct End {
    bool sends;
    int peer;
    std::size_t number;  // among those to, or from, this peer
    DataType type;
    std::size_t count, at;  // elements, bytes
    std::string algorithm;
  };
  /// Messages in one direction are added in their order on both ranks. `gap`: bytes left free
  /// before it.
  void add(bool sends, int peer, DataType type, std::size_t count, const std::string& algorithm,
           std::size_t gap = 0) {
    std::size_t& end = sends ? sent_ : received_;
    const std::size_t at = (end + gap + size_of(type) - 1) / size_of(type) * size_of(type);
    const auto number =
        static_cast<std::size_t>(std::count_if(ends_.begin(), ends_.end(), [&](const End& other) {
          return other.sends == sends && other.peer == peer;
        }));
    ends_.push_back({sends, peer, number, type, count, at, algorithm});
    end = at + count * size_of(type);
  }
  const std::vector<End>& ends() const { return ends_; }

  /// Puts the contents into the arrays.
  void begin(StreamRef stream = {}) {
    arena_.send.place(0, sent_);
    arena_.recv.place(0, received_);
    for (const End& end : ends_)
      for (std::size_t i = 0; end.sends && i < bytes(end); ++i)
        arena_.send.image()[end.at + i] = content(round_, comm_.rank(), end.peer, end.number, i);
    arena_.send.upload(stream);
    arena_.recv.upload(stream);
  }
  void call(const End& end, StreamRef stream = {}) const {
    const CallOptions options{.algorithm = end.algorithm};
    if (end.sends) comm_.send(address(end), end.count, end.type, end.peer, stream, options);
    else comm_.recv(address(end), end.count, end.type, end.peer, stream, options);
  }
  void call_all(StreamRef stream = {}, bool in_a_group = false) const {
    if (in_a_group) {
      const Group group;
      return call_all(stream);
    }
    for (const End& end : ends_) call(end, stream);
  }
  std::byte* address(const End& end) const {
    return static_cast<std::byte*>(end.sends ? arena_.send.device() : arena_.recv.device()) +
           end.at;
  }

  void expect_right(StreamRef stream = {}) {
    arena_.send.download(stream);
    arena_.recv.download(stream);
    comm_.synchronize(stream);
    EXPECT_EQ(arena_.send.damage(), "");
    EXPECT_EQ(arena_.recv.damage(), "");
    for (const End& end : ends_) {
      const std::byte* const data = (end.sends ? arena_.send : arena_.recv).image() + end.at;
      const int from = end.sends ? comm_.rank() : end.peer,
                to = end.sends ? end.peer : comm_.rank();
      for (std::size_t i = 0; i < bytes(end); ++i)
        if (data[i] != content(round_, from, to, end.number, i))
          return report(comm_,
                        fmt::format("round {}: {} message {} of {} {} from {} to {}: byte {} is {}",
                                    round_, end.sends ? "sent" : "received", end.number, end.count,
                                    name_of(end.type), from, to, i, static_cast<int>(data[i])));
    }
  }
  void expect_untouched() {
    arena_.recv.download({});
    comm_.synchronize();
    EXPECT_TRUE(arena_.recv.untouched()) << "something was enqueued";
  }

 private:
  static std::size_t bytes(const End& end) { return end.count * size_of(end.type); }

  Communicator& comm_;
  Arena& arena_;
  std::uint64_t round_;
  std::vector<End> ends_;
  std::size_t sent_ = 0, received_ = 0;
};

/// Those that need symmetric memory have tests of their own (symmetric_messages_test.cpp).
inline bool serves_ordinary_memory(const Subject& subject) {
  Topology able;
  able.ranks = 2;
  able.peer_access = able.peer_reads = true;
  able.line_threads = 8;
  const Algorithm* algorithm = Registry::instance().find(subject.algorithm, subject.collective);
  return static_cast<bool>(
      algorithm->supports({.collective = subject.collective, .count = 16}, able));
}
inline std::vector<std::string> ways() {
  std::vector<std::string> names{""};
  for (const Subject& subject : other_algorithms())
    if (subject.collective == Collective::send_recv && serves_ordinary_memory(subject))
      names.push_back(subject.algorithm);
  return names;
}

/// Numbers of ranks, from `first` on. More than five are tried once.
inline auto message_ranks(int first = 1) {
  std::vector<int> all;
  for (const int ranks : {1, 2, 3, 5, 8})
    if (ranks >= first && (ranks < 8 || !under_tsan)) all.push_back(ranks);
  return testing::ValuesIn(all);
}

using Messages = ForRanks;

/// Outside of groups: a rank alone sends to itself only in one.
using MessagesOfSeveral = Messages;

}  // namespace plait::test
