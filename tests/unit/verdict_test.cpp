// The verdict on a timeout, over boards that the tests write: no threads, no ranks, no clock.
#include "communicator/fault/verdict.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/observe/call_number.hpp"

namespace plait::test {
namespace {

using testing::StartsWith;
using Kind = Verdict::Kind;

/// The pages of ranks that have all made call 7, as a text says it: the number of ranks, and then
/// words in their order:
///   0>1, 0>1@6  rank 0 waits for rank 1 in call 7, or in call 6
///   0~1, 0~1@8  the same in message 3, or in message 8; messages are numbered per rank
///   0=6         rank 0 has made 6 calls
///   0!          its process answers, and no kernel of it waits. Otherwise it does not answer
///   0x          its process has ended
///   0<, 0-      it has destroyed the communicator; it is ending
///   0@          it waits in another communicator
///   0?          it is on another node that nothing is heard of
class Pages {
 public:
  /// `algorithm`: that they wait in.
  explicit Pages(const char* text, const char* algorithm = "tree")
      : algorithms_{"ring", algorithm} {
    std::istringstream words(text);
    int ranks = 0;
    words >> ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      RankSnapshot page;
      page.calls = 7;
      page.name = fmt::format("rank {}", rank);
      page.description = fmt::format("about {}", rank);
      pages_.push_back(page);
    }
    for (std::string word; words >> word;) read(word);
  }
  BoardSnapshot board() const { return BoardSnapshot(pages_); }
  /// The search begins at the wait of rank `first`.
  Verdict verdict(int first = 0) const { return find_culprit(board(), record(first), algorithms_); }
  std::string text(int first = 0) const {
    const Verdict found = verdict(first);
    return describe_timeout(board(), found, record(found.witness), algorithms_,
                            std::chrono::milliseconds(300));
  }
  /// The line after those of the ranks, if there is one.
  std::string hint(int first = 0) const {
    const std::string all = text(first);
    const auto end = all.find('\n', all.find("\n  " + pages_.back().description) + 1);
    return end == std::string::npos ? "" : all.substr(end + 3);
  }

 private:
  const DiagnosticRecord& record(int rank) const {
    return *pages_[static_cast<std::size_t>(rank)].record;
  }
  void read(const std::string& word) {
    const int rank = word[0] - '0';
    RankSnapshot& page = pages_[static_cast<std::size_t>(rank)];
    switch (word[1]) {
      case '=':
        page.calls = std::stoull(word.substr(2));
        return;
      case '!':
        page.state = RankState::gave_up;
        return;
      case 'x':
        page.alive = false;
        return;
      case '<':
        page.state = RankState::left;
        return;
      case '-':
        page.state = RankState::ending;
        return;
      case '@':
        page.elsewhere = "in a duplicate";
        return;
      case '?':
        page.is_here = false;
        page.name += " on node n1";
        page.calls = 0;
        return;
      default: {
        const bool message = word[1] == '~';
        const std::uint64_t call = word.size() > 3 ? std::stoull(word.substr(4)) : message ? 3 : 7;
        page.state = RankState::gave_up;
        page.record = DiagnosticRecord{.state = told_to,
                                       .rank = rank,
                                       .peer = word[2] - '0',
                                       .algorithm = 1,
                                       .block = 5,
                                       .step = 4,
                                       .expected = 12,
                                       .seen = 11,
                                       .call = message ? call | message_bit : call};
      }
    }
  }

  std::vector<std::string> algorithms_;
  std::vector<RankSnapshot> pages_;
};

TEST(Verdict, NamesTheCulpritAndTheWitness) {
  struct Judged {
    const char* board;
    Kind kind;
    int rank, witness;
    int first = 0;  // where the search begins
  };
  for (
      const Judged& wanted : {
          // A chain ends at the culprit, through ranks in any order.
          Judged{"4 0>1 1>2 2>3", Kind::silent, 3, 0},
          {"4 0>1 1>2 2>3", Kind::silent, 3, 1, 1},
          {"4 0>1 1>2 2>3", Kind::silent, 3, 2, 2},
          {"5 1>4 4>0 0>3 3>2", Kind::silent, 2, 1, 1},
          {"4 0>2 1>2 3>2", Kind::silent, 2, 0},
          {"4 0>2 1>2 3>2", Kind::silent, 2, 3, 3},
          {"3 0>1 1>1", Kind::late, 1, 0},  // a rank that waits for itself ends it
          // A rank that has made the call, or more calls, does not answer, or it does.
          {"2 0>1", Kind::silent, 1, 0},
          {"2 0>1 1!", Kind::late, 1, 0},
          {"2 0>1 1=20", Kind::silent, 1, 0},
          {"2 0>1 1=20 1!", Kind::late, 1, 0},
          // A rank that left a call out is behind, answers or not, also beside the chain.
          {"2 0>1 1=6", Kind::behind, 1, 0},
          {"2 0>1 1=6 1!", Kind::behind, 1, 0},
          {"4 0>1 1>2 3=6", Kind::behind, 3, 0},
          // Of several, the peer that is waited for, else one that shows no wait, else the first.
          {"4 0>2 1=6 2=6 3=6", Kind::behind, 2, 0},
          {"4 0>1 2>0@6 2=6 3=6", Kind::behind, 3, 0},
          {"5 0>1 2>1@6 3>4@6 2=6 3=6", Kind::silent, 1, 0},
          {"4 0>1 1=6 2=6 3=5", Kind::behind, 3, 0},  // the fewest count
          // One that waits elsewhere is none of them, unless all do.
          {"3 0>1 1=6 1@ 2=6", Kind::behind, 2, 0},
          {"3 0>1 1=6 1@ 2=6 2@", Kind::behind, 1, 0},
          {"3 0>1 1>2@6 1=6", Kind::silent, 2, 0},  // rank 1 waits in a call before that
          // A lost rank is missing, whatever the others wait for; of several the lowest. One that
          // gave up before is not lost. One that left is not called behind.
          {"4 0>1 1>0 2=1 3x", Kind::missing, 3, 0},
          {"4 0>1 1>0 2=1 3x", Kind::missing, 3, 1, 1},
          {"4 3>0 1x 2x", Kind::missing, 1, 3, 3},
          {"3 0>1 1>2 1x", Kind::silent, 2, 0},
          {"2 0>1 1=6 1<", Kind::missing, 1, 0},
          {"2 0>1 1=6 1-", Kind::missing, 1, 0},
          // A circle is told from the lowest rank in it, wherever a search begins.
          {"2 0~1@3 1~0@8", Kind::circle, 0, 0},
          {"2 0~1@3 1~0@8", Kind::circle, 0, 0, 1},
          {"4 0~2 2~1 1~3 3~0", Kind::circle, 0, 0, 2},
          {"4 0~2 2~1 1~3 3~0", Kind::circle, 0, 0, 3},
          {"4 0~3 3~1 1~2 2~1", Kind::circle, 1, 1},
          {"2 0>1 1~0", Kind::circle, 0, 0},
          {"3 0~1 1~0", Kind::circle, 0, 0},  // of messages alone: no rank outside is looked at
          // In a collective, one rank outside that shows no wait is the culprit. The witness is in
          // the collective, because a message does not tell that a rank outside holds it up.
          {"4 3>1 1>3 0>1", Kind::silent, 2, 1},
          {"4 3>1 1>3 0>1 2!", Kind::late, 2, 1},
          {"3 0~1 1>0", Kind::silent, 2, 1},
          // The only silent one goes before the only late one. Several tell nothing.
          {"5 0>1 1>0 2! 4!", Kind::silent, 3, 0},
          {"5 0>1 1>0 2! 4! 4>0", Kind::silent, 3, 0},
          {"5 0>1 1>0 2!", Kind::late, 2, 0},
          {"4 0>1 1>0", Kind::circle, 0, 0},
          {"4 0>1 1>0 2! 3!", Kind::circle, 0, 0},
          // Rank 0 waits for rank 1 in a collective that rank 1 has not made.
          {"3 0>1 1~0 1=6", Kind::behind, 1, 0},
          {"3 0>1 1~0 1=6", Kind::behind, 1, 0, 1},
          // A rank of another node that does not answer is not called behind, because what is known
          // of its calls may be old. One that answers is judged as one of this node.
          {"3 2? 0>1 1>2", Kind::out_of_reach, 2, 0},
          {"3 2? 0>1", Kind::silent, 1, 0},
          {"3 2? 0>1 1=6", Kind::behind, 1, 0},
          {"3 2? 0>1 1>2 2!", Kind::behind, 2, 0},
          {"3 2? 0>1 1>2 2! 2=7", Kind::late, 2, 0},
          {"5 2? 3? 0>1 1>0 4!", Kind::out_of_reach, 2, 0},
          {"5 2? 3? 0>1 1>0", Kind::silent, 4, 0},
          // A chain of messages ends at a rank that is missing, answers or not. They are no
          // collectives that a rank could be behind in. A link of a chain may be one.
          {"3 0~1 1~2", Kind::missing, 2, 0},
          {"3 0~1 1~2 2!", Kind::missing, 2, 0},
          {"3 0~1@99 1=0 2=0", Kind::missing, 1, 0},
          {"3 0~1 1>2", Kind::silent, 2, 0},
          {"3 0~1 1>2 2=6", Kind::behind, 2, 0},
      }) {
    const Verdict found = Pages(wanted.board).verdict(wanted.first);
    EXPECT_EQ(found.kind, wanted.kind) << wanted.board;
    EXPECT_EQ(found.rank, wanted.rank) << wanted.board;
    EXPECT_EQ(found.witness, wanted.witness) << wanted.board;
  }
}

/// The beginning of each error, and the hint after the lines of the ranks.
TEST(Verdict, IsToldWithAHint) {
  struct Told {
    const char *board, *begins, *hint;
    int first = 0;
  };
  for (const Told& wanted : {
           Told{"2 0>1 1!", "rank 1 has not come so far: ",
                "all ranks have enqueued call 7, but the stream of rank 1 has not come to it: what "
                "is ahead of it there may wait for a call that another rank has behind this one"},
           {"2 0>1 1=6", "rank 1 is missing: ",
            "calls of 0 elements are not counted: PLAIT_CHECK=1 compares counts"},
           {"4 0>1 1>0 2=1 3x", "rank 3 is missing: ", ""},
           {"2 0>1 1=6 1<", "rank 1 has destroyed the communicator: ", ""},
           {"2 0>1 1=6 1< 1x", "rank 1 has destroyed the communicator: ", ""},
           {"2 0>1 1=6 1-", "rank 1 is ending and has not destroyed the communicator: ", ""},
           {"2 0>1 1=6 1- 1x", "rank 1 is ending and has not destroyed the communicator: ", ""},
           {"2 0~1@3 1~0@8", "ranks 0 and 1 wait for each other: in message 3 (tree) rank 0 waited",
            "messages that must proceed at once, as when all send first, belong into one send_recv "
            "or a group"},
           {"4 0~2 2~1 1~3 3~0",
            "ranks wait for each other in a circle, 0 for rank 2, 2 for rank 1, 1 for rank 3, 3 "
            "for "
            "rank 0: ",
            "messages that must proceed at once, as when all send first, belong into one send_recv "
            "or a group",
            2},
           {"4 0~3 3~1 1~2 2~1", "ranks 1 and 2 wait for each other: ",
            "messages that must proceed at once, as when all send first, belong into one send_recv "
            "or a group"},
           {"2 0>1 1~0", "ranks 0 and 1 wait for each other: ", ""},
           {"3 0>1 1~0 1=6", "rank 1 is missing: ",
            "calls of 0 elements are not counted: PLAIT_CHECK=1 compares counts"},
           {"3 2? 0>1 1>2", "rank 2 on node n1 is missing: ",
            "the process of rank 2 does not answer: it is stopped, or gets no processor, or the "
            "network to its node is down"},
           {"3 0~1 1~2", "rank 2 is missing: in message 3 (tree) rank 0 waited 0.3 s for rank 1",
            ""},
           {"3 0~1 1~2 2!", "rank 2 is missing: in message 3 (tree) rank 0 waited 0.3 s for rank 1",
            ""},
       }) {
    const Pages pages(wanted.board);
    EXPECT_THAT(pages.text(wanted.first), StartsWith(wanted.begins)) << wanted.board;
    EXPECT_EQ(pages.hint(wanted.first), wanted.hint) << wanted.board;
  }
}

/// A kernel of the program's own may end and leave others waiting.
TEST(Verdict, ToldOfOwnKernels) {
  for (const auto& [board, begins] : {
           std::pair{"2 0>1 1!", "rank 1 has not sent it: in call 7 (own_kernel) rank 0 waited"},
           {"3 0>2@6 2>1@6 1>0@7",
            "rank 1 has ended call 6 without it: in call 6 (own_kernel) rank 2 waited"},
           {"3 1>0@6 2>1@6 0>2@7",
            "rank 0 has ended call 6 without it: in call 6 (own_kernel) rank 1 waited"},
           {"3 0>2@6 2>1@6 1>0@7 0=6 2=6", "rank 1 has ended call 6 without it: "},
           {"2 0>0 1>0", "rank 0 waits for itself: "},
           {"2 0>1 1>0", "ranks 0 and 1 wait for each other: "},
       })
    EXPECT_THAT(Pages(board, "own_kernel").text(), StartsWith(begins)) << board;
  EXPECT_EQ(Pages("2 0>1 1=6", "own_kernel").hint(), "");
}

TEST(Verdict, HasALinePerRank) {
  EXPECT_EQ(Pages("3 0>1 1>2").text(),
            "rank 2 is missing: in call 7 (tree) rank 0 waited 0.3 s for rank 1, in block 5 at "
            "step 4 (expected 12, saw 11); the communicator is broken"
            "\n  about 0; in call 7 (tree) block 5 waits at step 4 for rank 1 (expected 12, saw 11)"
            "\n  about 1; in call 7 (tree) block 5 waits at step 4 for rank 2 (expected 12, saw 11)"
            "\n  about 2"
            "\n  rank 2 has enqueued call 7, but its process does not answer: it is stopped, or "
            "gets no processor");
  const std::string text = Pages("3 0~1 1>2 2=6").text();
  EXPECT_THAT(text, testing::HasSubstr("\n  about 1; in call 7 (tree) block 5 waits"));
  EXPECT_THAT(text, testing::HasSubstr("\n  about 0; in message 3 (tree) block 5 waits"));
}

/// That of the lowest rank whose own time was over, if there is one.
TEST(Verdict, FindsTheFirstRecord) {
  const auto first = [](const std::vector<std::optional<GaveUp>>& ranks) {
    std::vector<RankSnapshot> pages(ranks.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (ranks[rank]) {
        DiagnosticRecord record{};
        record.state = *ranks[rank];
        record.rank = static_cast<int>(rank);
        pages[rank].record = record;
      }
    const auto record = first_out_of_time(BoardSnapshot(pages));
    return record ? record->rank : -1;
  };
  EXPECT_EQ(first({told_to, std::nullopt, out_of_time, out_of_time}), 2);
  EXPECT_EQ(first({told_to, unreadable, std::nullopt}), -1);
}

}  // namespace
}  // namespace plait::test
