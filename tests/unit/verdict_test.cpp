// The verdict on a timeout, over boards that the tests write: no threads, no ranks, no clock.
#include "communicator/fault/verdict.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/observe/call_number.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Kind = Verdict::Kind;

constexpr auto stopped = RankState::working;  // together with no record
constexpr auto answers = RankState::gave_up;

/// The pages of ranks that are alive and have all made call 7. Tests change them.
class Pages {
 public:
  explicit Pages(int ranks) : pages_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      (*this)[rank].calls = 7;
      (*this)[rank].name = fmt::format("rank {}", rank);
      (*this)[rank].description = fmt::format("about {}", rank);
    }
  }
  RankSnapshot& operator[](int rank) { return pages_[static_cast<std::size_t>(rank)]; }

  Pages& wait(int rank, int peer, std::uint64_t call = 7, GaveUp why = told_to) {
    (*this)[rank].state = answers;
    (*this)[rank].record = DiagnosticRecord{.state = why,
                                            .rank = rank,
                                            .peer = peer,
                                            .algorithm = 1,
                                            .block = 5,
                                            .step = 4,
                                            .expected = 12,
                                            .seen = 11,
                                            .call = call};
    return *this;
  }
  /// The same in a message. Messages are numbered per rank.
  Pages& wait_in_message(int rank, int peer, std::uint64_t number = 3) {
    return wait(rank, peer, number | message_bit);
  }

  BoardSnapshot board() const { return BoardSnapshot(pages_); }
  /// The search begins at the wait of rank `first`.
  Verdict verdict(int first = 0) { return find_culprit(board(), *(*this)[first].record); }
  std::string text(int first = 0) {
    const Verdict found = verdict(first);
    return describe_timeout(board(), found, *(*this)[found.witness].record, {"ring", "tree"},
                            std::chrono::milliseconds(300));
  }

 private:
  std::vector<RankSnapshot> pages_;
};

/// The beginning of an error, up to where the witness waited.
std::string culprit_in(const std::string& text) { return text.substr(0, text.find(':')); }

/// The line after those of the ranks, if there is one.
std::string hint_in(const std::string& text, int ranks) {
  const std::string last = fmt::format("\n  about {}", ranks - 1);
  const auto end = text.find('\n', text.find(last) + 1);
  return end == std::string::npos ? "" : text.substr(end);
}

testing::Matcher<Verdict> is(Kind kind, int rank, int witness) {
  return testing::AllOf(testing::Field("kind", &Verdict::kind, kind),
                        testing::Field("rank", &Verdict::rank, rank),
                        testing::Field("witness", &Verdict::witness, witness));
}

TEST(Chain, ItsEndIsTheCulprit) {
  Pages pages(4);
  pages.wait(0, 1).wait(1, 2).wait(2, 3);
  EXPECT_THAT(pages.verdict(0), is(Kind::silent, 3, 0));
  EXPECT_THAT(pages.verdict(1), is(Kind::silent, 3, 1));
  EXPECT_THAT(pages.verdict(2), is(Kind::silent, 3, 2));
}

TEST(Chain, GoesThroughRanksInAnyOrder) {
  Pages pages(5);
  pages.wait(1, 4).wait(4, 0).wait(0, 3).wait(3, 2);
  EXPECT_THAT(pages.verdict(1), is(Kind::silent, 2, 1));
}

TEST(Chain, AllMayWaitForTheCulpritItself) {
  Pages pages(4);
  pages.wait(0, 2).wait(1, 2).wait(3, 2);
  for (const int first : {0, 1, 3}) EXPECT_THAT(pages.verdict(first), is(Kind::silent, 2, first));
}

TEST(Chain, ARankThatWaitsForItselfEndsIt) {
  Pages pages(3);
  pages.wait(0, 1).wait(1, 1);
  EXPECT_THAT(pages.verdict(0), is(Kind::late, 1, 0));
}

TEST(Chain, TheWholeTextOfAStoppedRank) {
  Pages pages(3);
  pages.wait(0, 1).wait(1, 2);
  EXPECT_EQ(pages.text(),
            "rank 2 is missing: in call 7 (tree) rank 0 waited 0.3 s for rank 1, in block 5 at "
            "step 4 (expected 12, saw 11); the communicator is broken"
            "\n  about 0; in call 7 (tree) block 5 waits at step 4 for rank 1 (expected 12, saw 11)"
            "\n  about 1; in call 7 (tree) block 5 waits at step 4 for rank 2 (expected 12, saw 11)"
            "\n  about 2"
            "\n  rank 2 has enqueued call 7, but its process does not answer: it is stopped, or "
            "gets no processor");
}

TEST(FirstRecord, IsOfTheLowestRankWhoseOwnTimeWasOver) {
  Pages pages(4);
  pages.wait(0, 1).wait(2, 3, 7, out_of_time).wait(3, 1, 7, out_of_time);
  const auto first = first_out_of_time(pages.board());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->rank, 2);
}

TEST(FirstRecord, ThereMayBeNone) {
  Pages pages(3);
  pages.wait(0, 1).wait(1, 2, 7, unreadable);
  EXPECT_FALSE(first_out_of_time(pages.board()).has_value());
}

TEST(EqualCalls, ARankThatDoesNotAnswerIsSilent) {
  Pages pages(2);
  pages.wait(0, 1);
  pages[1].state = stopped;
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 1, 0));
}

TEST(EqualCalls, ARankThatAnswersIsLate) {
  Pages pages(2);
  pages.wait(0, 1);
  pages[1].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::late, 1, 0));
  EXPECT_EQ(culprit_in(pages.text()), "rank 1 has not come so far");
  EXPECT_EQ(hint_in(pages.text(), 2),
            "\n  all ranks have enqueued call 7, but the stream of rank 1 has not come to it: what "
            "is ahead of it there may wait for a call that another rank has behind this one");
}

TEST(EqualCalls, ARankThatIsAheadIsJudgedAlike) {
  Pages pages(2);
  pages.wait(0, 1);
  pages[1].calls = 20;
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 1, 0));
  pages[1].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::late, 1, 0));
}

TEST(FewerCalls, TheRankThatLeftOneOutIsBehind) {
  Pages pages(2);
  pages.wait(0, 1);
  pages[1].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 1, 0));
  EXPECT_EQ(culprit_in(pages.text()), "rank 1 is missing");
  EXPECT_EQ(hint_in(pages.text(), 2),
            "\n  calls of 0 elements are not counted: PLAIT_CHECK=1 compares counts");
  pages[1].state = answers;  // answers or not
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 1, 0));
}

TEST(FewerCalls, AreFoundBesideTheChain) {
  Pages pages(4);
  pages.wait(0, 1).wait(1, 2);
  pages[3].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 3, 0));
}

TEST(FewerCalls, OfSeveralThePeerThatIsWaitedForCounts) {
  Pages pages(4);
  pages.wait(0, 2);
  pages[1].calls = pages[2].calls = pages[3].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 2, 0));
}

TEST(FewerCalls, OfSeveralOthersOneThatShowsNoWaitCounts) {
  Pages pages(4);
  pages.wait(0, 1).wait(2, 0, 6);
  pages[2].calls = pages[3].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 3, 0));
}

TEST(FewerCalls, OfSeveralThatAllWaitTheFirstCounts) {
  Pages pages(5);
  pages.wait(0, 1).wait(2, 1, 6).wait(3, 4, 6);
  pages[2].calls = pages[3].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 1, 0));
}

TEST(FewerCalls, TheFewestCount) {
  Pages pages(4);
  pages.wait(0, 1);
  pages[1].calls = pages[2].calls = 6;
  pages[3].calls = 5;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 3, 0));
}

/// Rank 1 left call 7 out, because it waits in a call before that, for rank 2.
TEST(FewerCalls, OfARankThatWaitsItselfThoseItWaitsForCount) {
  Pages pages(3);
  pages.wait(0, 1).wait(1, 2, 6);
  pages[1].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 2, 0));
}

TEST(Ended, ALostRankIsMissingWhateverTheOthersWaitFor) {
  Pages pages(4);
  pages.wait(0, 1).wait(1, 0);
  pages[2].calls = 1;
  pages[3].alive = false;
  EXPECT_THAT(pages.verdict(0), is(Kind::missing, 3, 0));
  EXPECT_THAT(pages.verdict(1), is(Kind::missing, 3, 1));
  EXPECT_EQ(culprit_in(pages.text()), "rank 3 is missing");
  EXPECT_EQ(hint_in(pages.text(), 4), "");
}

TEST(Ended, OfSeveralLostRanksTheLowestIsMissing) {
  Pages pages(4);
  pages.wait(3, 0);
  pages[1].alive = pages[2].alive = false;
  EXPECT_THAT(pages.verdict(3), is(Kind::missing, 1, 3));
}

TEST(Ended, ARankThatGaveUpBeforeIsNotLost) {
  Pages pages(3);
  pages.wait(0, 1).wait(1, 2);
  pages[1].alive = false;
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 2, 0));
}

TEST(Ended, ARankThatLeftIsMissingAndTheTextSaysHow) {
  Pages pages(2);
  pages.wait(0, 1);
  pages[1].calls = 6;  // even so it is not called behind
  for (const bool alive : {true, false}) {
    pages[1].alive = alive;
    pages[1].state = RankState::left;
    EXPECT_THAT(pages.verdict(), is(Kind::missing, 1, 0));
    EXPECT_EQ(culprit_in(pages.text()), "rank 1 has destroyed the communicator");
    pages[1].state = RankState::ending;
    EXPECT_THAT(pages.verdict(), is(Kind::missing, 1, 0));
    EXPECT_EQ(culprit_in(pages.text()), "rank 1 is ending and has not destroyed the communicator");
    EXPECT_EQ(hint_in(pages.text(), 2), "");
  }
}

TEST(Circle, OfTwoMessages) {
  Pages pages(2);
  pages.wait_in_message(0, 1, 3).wait_in_message(1, 0, 8);
  EXPECT_THAT(pages.verdict(0), is(Kind::circle, 0, 0));
  EXPECT_THAT(pages.verdict(1), is(Kind::circle, 0, 0));
  EXPECT_THAT(pages.text(),
              StartsWith("ranks 0 and 1 wait for each other: in message 3 (tree) rank 0 waited"));
  EXPECT_EQ(hint_in(pages.text(), 2),
            "\n  messages that must proceed at once, as when all send first, belong into one "
            "send_recv or a group");
}

TEST(Circle, OfAllIsToldFromTheLowestRankWhereverASearchBegins) {
  Pages pages(4);
  pages.wait_in_message(0, 2).wait_in_message(2, 1).wait_in_message(1, 3).wait_in_message(3, 0);
  for (int first = 0; first < 4; ++first) {
    EXPECT_THAT(pages.verdict(first), is(Kind::circle, 0, 0));
    EXPECT_EQ(culprit_in(pages.text(first)),
              "ranks wait for each other in a circle, 0 for rank 2, 2 for rank 1, 1 for rank 3, 3 "
              "for rank 0");
  }
}

TEST(Circle, RanksThatOnlyWaitForItAreNotInIt) {
  Pages pages(4);
  pages.wait_in_message(0, 3).wait_in_message(3, 1).wait_in_message(1, 2).wait_in_message(2, 1);
  EXPECT_THAT(pages.verdict(0), is(Kind::circle, 1, 1));
  EXPECT_EQ(culprit_in(pages.text()), "ranks 1 and 2 wait for each other");
}

TEST(Circle, InACollectiveHasNoHintForMessages) {
  Pages pages(2);
  pages.wait(0, 1).wait_in_message(1, 0);
  EXPECT_THAT(pages.verdict(), is(Kind::circle, 0, 0));
  EXPECT_EQ(hint_in(pages.text(), 2), "");
}

TEST(Circle, OfMessagesAloneLooksAtNoRankOutside) {
  Pages pages(3);
  pages.wait_in_message(0, 1).wait_in_message(1, 0);
  EXPECT_THAT(pages.verdict(), is(Kind::circle, 0, 0));
}

TEST(Circle, InACollectiveOneRankOutsideThatShowsNoWaitIsTheCulprit) {
  Pages pages(4);
  pages.wait(3, 1).wait(1, 3).wait(0, 1);
  EXPECT_THAT(pages.verdict(0), is(Kind::silent, 2, 1));
  pages[2].state = answers;
  EXPECT_THAT(pages.verdict(0), is(Kind::late, 2, 1));
}

/// The witness is in a collective, because a message does not tell that a rank outside holds it up.
TEST(Circle, TheWitnessAgainstARankOutsideIsInTheCollective) {
  Pages pages(3);
  pages.wait_in_message(0, 1).wait(1, 0);
  EXPECT_THAT(pages.verdict(0), is(Kind::silent, 2, 1));
}

TEST(Circle, TheOnlySilentRankOutsideGoesBeforeLateOnes) {
  Pages pages(5);
  pages.wait(0, 1).wait(1, 0);
  pages[2].state = pages[4].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 3, 0));
  pages.wait(4, 0);  // so rank 2 is the only late one
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 3, 0));
}

TEST(Circle, TheOnlyLateRankOutsideGoesBeforeSeveralSilentOnes) {
  Pages pages(5);
  pages.wait(0, 1).wait(1, 0);
  pages[2].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::late, 2, 0));
}

TEST(Circle, SeveralRanksOutsideTellNothing) {
  Pages pages(4);
  pages.wait(0, 1).wait(1, 0);
  EXPECT_THAT(pages.verdict(), is(Kind::circle, 0, 0));
  pages[2].state = pages[3].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::circle, 0, 0));
}

/// Rank 1 waits for a message of rank 0, and rank 0 for rank 1 in a collective that rank 1 has not
/// made.
TEST(Circle, ARankInItThatLeftOutACollectiveIsBehind) {
  Pages pages(3);
  pages.wait(0, 1).wait_in_message(1, 0);
  pages[1].calls = 6;
  EXPECT_THAT(pages.verdict(0), is(Kind::behind, 1, 0));
  EXPECT_THAT(pages.verdict(1), is(Kind::behind, 1, 0));
  EXPECT_EQ(culprit_in(pages.text()), "rank 1 is missing");
}

/// Pages of which those of `ranks` are of another node that nothing is heard of.
Pages out_of_reach(int all, std::initializer_list<int> ranks) {
  Pages pages(all);
  for (const int rank : ranks) {
    pages[rank].is_here = false;
    pages[rank].name += " on node n1";
    pages[rank].calls = 0;
  }
  return pages;
}

TEST(OtherNodes, ARankThatDoesNotAnswerIsNamedWithItsNode) {
  Pages pages = out_of_reach(3, {2});
  pages.wait(0, 1).wait(1, 2);
  EXPECT_THAT(pages.verdict(), is(Kind::out_of_reach, 2, 0));
  EXPECT_EQ(culprit_in(pages.text()), "rank 2 on node n1 is missing");
  EXPECT_EQ(hint_in(pages.text(), 3),
            "\n  the process of rank 2 does not answer: it is stopped, or gets no processor, or "
            "the network to its node is down");
}

/// What is known of its calls may be old.
TEST(OtherNodes, ARankThatDoesNotAnswerIsNotCalledBehind) {
  Pages pages = out_of_reach(3, {2});
  pages.wait(0, 1);
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 1, 0));
  pages[1].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 1, 0));
}

TEST(OtherNodes, ARankThatAnswersIsJudgedAsOneOfThisNode) {
  Pages pages = out_of_reach(3, {2});
  pages.wait(0, 1).wait(1, 2);
  pages[2].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 2, 0));
  pages[2].calls = 7;
  EXPECT_THAT(pages.verdict(), is(Kind::late, 2, 0));
}

TEST(OtherNodes, OfSeveralThatDoNotAnswerTheFirstHoldsACircleUp) {
  Pages pages = out_of_reach(5, {2, 3});
  pages.wait(0, 1).wait(1, 0);
  pages[4].state = answers;
  EXPECT_THAT(pages.verdict(), is(Kind::out_of_reach, 2, 0));
  pages[4].state = stopped;  // here
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 4, 0));
}

TEST(Messages, AChainOfThemEndsAtARankThatIsMissing) {
  Pages pages(3);
  pages.wait_in_message(0, 1).wait_in_message(1, 2);
  for (const RankState state : {stopped, answers}) {
    pages[2].state = state;
    EXPECT_THAT(pages.verdict(), is(Kind::missing, 2, 0));
    EXPECT_THAT(
        pages.text(),
        StartsWith("rank 2 is missing: in message 3 (tree) rank 0 waited 0.3 s for rank 1"));
    EXPECT_EQ(hint_in(pages.text(), 3), "");
  }
}

TEST(Messages, AreNoCollectivesThatARankCouldBeBehindIn) {
  Pages pages(3);
  pages.wait_in_message(0, 1, 99);
  pages[1].calls = 0;
  pages[2].calls = 0;
  EXPECT_THAT(pages.verdict(), is(Kind::missing, 1, 0));
}

TEST(Messages, ALinkOfTheChainMayBeOne) {
  Pages pages(3);
  pages.wait_in_message(0, 1).wait(1, 2);
  EXPECT_THAT(pages.verdict(), is(Kind::silent, 2, 0));
  pages[2].calls = 6;
  EXPECT_THAT(pages.verdict(), is(Kind::behind, 2, 0));
  EXPECT_THAT(pages.text(), HasSubstr("\n  about 1; in call 7 (tree) block 5 waits"));
  EXPECT_THAT(pages.text(), HasSubstr("\n  about 0; in message 3 (tree) block 5 waits"));
}

}  // namespace
}  // namespace plait::test
