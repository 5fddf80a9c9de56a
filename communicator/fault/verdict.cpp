#include "communicator/fault/verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/observe/call_number.hpp"

namespace plait {
namespace {

/// The rank that has made too few collectives for `record`. If there are several: one that waits in
/// no other communicator, the peer that `record` waits for, else the first rank that shows no wait
/// itself, else the first.
std::optional<int> find_behind(const BoardSnapshot& board, const DiagnosticRecord& record) {
  if (is_message(record.call)) return std::nullopt;
  std::uint64_t fewest = plain_number(record.call);
  for (int rank = 0; rank < board.ranks(); ++rank)
    if (!board[rank].is_out_of_reach()) fewest = std::min(fewest, board[rank].calls);
  if (fewest == plain_number(record.call)) return std::nullopt;
  const auto is_candidate = [&](int rank) {
    return board[rank].calls == fewest && !board[rank].is_out_of_reach();
  };
  bool is_here = false;
  for (int rank = 0; rank < board.ranks(); ++rank)
    is_here = is_here || (is_candidate(rank) && board[rank].elsewhere.empty());
  const auto has_fewest = [&](int rank) {
    return is_candidate(rank) && (!is_here || board[rank].elsewhere.empty());
  };
  if (has_fewest(record.peer)) return record.peer;
  std::optional<int> found;
  for (int rank = 0; rank < board.ranks(); ++rank) {
    if (!has_fewest(rank)) continue;
    if (!board[rank].record) return rank;
    if (!found) found = rank;
  }
  return found;
}

/// The kind of verdict on `rank`, which `record` waits for and which does not wait itself.
Verdict::Kind kind_of(const RankSnapshot& rank, const DiagnosticRecord& record) {
  if (is_message(record.call) || !departure_of(rank.state).empty()) return Verdict::Kind::missing;
  if (rank.is_out_of_reach()) return Verdict::Kind::out_of_reach;
  if (rank.calls < plain_number(record.call)) return Verdict::Kind::behind;
  return rank.is_silent() ? Verdict::Kind::silent : Verdict::Kind::late;
}

Verdict find_culprit_of_circle(const BoardSnapshot& board, std::vector<DiagnosticRecord> circle) {
  // Begins at the lowest rank, so ranks that entered the circle at different places agree.
  const auto lowest = std::min_element(
      circle.begin(), circle.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::rotate(circle.begin(), lowest, circle.end());
  // A rank that has left out a collective in which another one waits is at fault, whatever it waits
  // for itself.
  for (const DiagnosticRecord& its : circle)
    if (const auto behind = find_behind(board, its))
      return {.kind = Verdict::Kind::behind, .rank = *behind, .witness = its.rank};
  const DiagnosticRecord& first = circle.front();
  const Verdict each_other{
      .kind = Verdict::Kind::circle, .rank = first.rank, .witness = first.rank};
  const auto collective = std::find_if(circle.begin(), circle.end(),
                                       [](const auto& its) { return !is_message(its.call); });
  if (collective == circle.end()) return each_other;
  // Blocks of a collective may wait for different peers, and each rank shows one of its waits. So
  // such a circle does not tell where the waits of the other blocks end. A rank outside the circle
  // that shows no wait does tell. Several ranks of other nodes that don't answer are behind one
  // cable, so the first of them counts.
  std::vector<int> silent, out_of_reach, late;
  for (int rank = 0; rank < board.ranks(); ++rank)
    if (!board[rank].record)
      (board[rank].is_out_of_reach() ? out_of_reach
       : board[rank].is_silent()     ? silent
                                     : late)
          .push_back(rank);
  for (const std::vector<int>* candidates : {&silent, &out_of_reach, &late})
    if (candidates->size() == 1 || (candidates == &out_of_reach && !candidates->empty()))
      return {.kind = kind_of(board[candidates->front()], *collective),
              .rank = candidates->front(),
              .witness = collective->rank};
  return each_other;
}

/// The beginning of the error's text, and the hint at its end.
struct Phrases {
  std::string culprit, hint;
};

Phrases describe_circle(const BoardSnapshot& board, const DiagnosticRecord& witness) {
  std::vector<std::string> waits;
  bool messages = true;
  std::optional<DiagnosticRecord> its = witness;
  do {
    waits.push_back(fmt::format("{} for rank {}", its->rank, its->peer));
    messages = messages && is_message(its->call);
    its = board[its->peer].record;
  } while (its && its->rank != witness.rank);
  return {waits.size() == 2
              ? fmt::format("ranks {} and {} wait for each other", witness.rank, witness.peer)
              : fmt::format("ranks wait for each other in a circle, {}", fmt::join(waits, ", ")),
          messages ? "\n  messages that must proceed at once, as when all send first, belong into "
                     "one send_recv or a group"
                   : ""};
}

Phrases describe_culprit(const BoardSnapshot& board, const Verdict& verdict,
                         const DiagnosticRecord& witness, bool of_own_kernel) {
  const std::string call = describe_number(witness.call);
  const std::string& its_name = board[verdict.rank].name;
  const std::string_view departure = departure_of(board[verdict.rank].state);
  const std::string& elsewhere = board[verdict.rank].elsewhere;
  if (verdict.kind != Verdict::Kind::circle && departure.empty() && !elsewhere.empty())
    return {fmt::format("{} waits in another communicator, {}", its_name, elsewhere), ""};
  const std::string missing =
      fmt::format("{} {}", its_name, departure.empty() ? "is missing" : departure);
  if (of_own_kernel && witness.rank == witness.peer && verdict.rank == witness.rank)
    return {its_name + " waits for itself", ""};
  switch (verdict.kind) {
    case Verdict::Kind::missing:
      return {missing, ""};
    case Verdict::Kind::behind:
      return {missing, of_own_kernel ? ""
                                     : "\n  calls of 0 elements are not counted: PLAIT_CHECK=1 "
                                       "compares counts"};
    case Verdict::Kind::ended:
      return {fmt::format("{} has ended {} without it", its_name, call), ""};
    case Verdict::Kind::silent:
      return {missing,
              fmt::format("\n  rank {} has enqueued {}, but its process does not answer: it is "
                          "stopped, or gets no processor",
                          verdict.rank, call)};
    case Verdict::Kind::late:
      if (of_own_kernel)
        return {its_name + " has not sent it",
                fmt::format("\n  the kernel of rank {} in {} has ended without it, or has not "
                            "begun: what is ahead of it in its stream may wait for a call that "
                            "another rank has behind this one",
                            verdict.rank, call)};
      return {its_name + " has not come so far",
              fmt::format("\n  all ranks have enqueued {}, but the stream of rank {} has not come "
                          "to it: what is ahead of it there may wait for a call that another rank "
                          "has behind this one",
                          call, verdict.rank)};
    case Verdict::Kind::out_of_reach:
      return {missing,
              fmt::format("\n  the process of rank {} does not answer: it is stopped, or gets no "
                          "processor, or the network to its node is down",
                          verdict.rank)};
    case Verdict::Kind::circle:
      break;
  }
  return describe_circle(board, witness);
}

/// Where a block waits: "at step 3" of an algorithm; "in slot 3" of a kernel of the program's own.
std::string describe_step(const DiagnosticRecord& record,
                          const std::vector<std::string>& algorithms) {
  if (!is_own_kernel(algorithms.at(record.algorithm)) && record.step != threads_of_the_block)
    return fmt::format("at step {}", record.step);
  switch (record.step) {
    case KernelSetting::no_slot:
      return "in a slot or for a rank that there is not";
    case KernelSetting::barrier:
      return "in a barrier";
    case KernelSetting::sum:
      return "in a sum";
    case KernelSetting::term_of_row:
      return "for its term of a row";
    case KernelSetting::gathered_row:
      return "for one of its rows";
    case threads_of_the_block:
      return "in a barrier of the block, to which not all of its threads come";
    default:
      return fmt::format("in slot {}", record.step);
  }
}

std::string describe_wait(const DiagnosticRecord& record,
                          const std::vector<std::string>& algorithms) {
  return fmt::format("in {} ({}) block {} waits {} for rank {} (expected {}, saw {})",
                     describe_number(record.call), algorithms.at(record.algorithm), record.block,
                     describe_step(record, algorithms), record.peer, record.expected, record.seen);
}

}  // namespace

std::string_view departure_of(RankState state) noexcept {
  switch (state) {
    case RankState::left:
      return "has destroyed the communicator";
    case RankState::ending:
      return "is ending and has not destroyed the communicator";
    default:
      return {};
  }
}

std::optional<DiagnosticRecord> first_out_of_time(const BoardSnapshot& board) {
  for (int rank = 0; rank < board.ranks(); ++rank)
    if (const auto& its = board[rank].record; its && its->state == out_of_time) return its;
  return std::nullopt;
}

Verdict find_culprit(const BoardSnapshot& board, const DiagnosticRecord& first,
                     const std::vector<std::string>& algorithms) {
  for (int rank = 0; rank < board.ranks(); ++rank)
    if (board[rank].is_lost())
      return {.kind = Verdict::Kind::missing, .rank = rank, .witness = first.rank};
  std::vector<DiagnosticRecord> path;
  for (DiagnosticRecord its = first;;) {
    path.push_back(its);
    const int next = find_behind(board, its).value_or(its.peer);
    const auto& record = board[next].record;
    if (record && next == its.peer && !is_message(its.call) && !is_message(record->call) &&
        plain_number(record->call) > plain_number(its.call) &&
        is_own_kernel(algorithms.at(its.algorithm)))
      return {.kind = Verdict::Kind::ended, .rank = next, .witness = its.rank};
    if (!record || next == its.rank)
      return {.kind = kind_of(board[next], its), .rank = next, .witness = first.rank};
    const auto before = std::find_if(path.begin(), path.end(), [&](const DiagnosticRecord& other) {
      return other.rank == next;
    });
    if (before != path.end()) return find_culprit_of_circle(board, {before, path.end()});
    its = *record;
  }
}

std::string describe_timeout(const BoardSnapshot& board, const Verdict& verdict,
                             const DiagnosticRecord& witness,
                             const std::vector<std::string>& algorithms,
                             std::chrono::nanoseconds timeout) {
  const auto [culprit, hint] =
      describe_culprit(board, verdict, witness, is_own_kernel(algorithms.at(witness.algorithm)));
  std::string text = fmt::format(
      "{}: in {} ({}) rank {} waited {:.3g} s for rank {}, in block {} {} (expected {}, "
      "saw {}); the communicator is broken",
      culprit, describe_number(witness.call), algorithms.at(witness.algorithm), witness.rank,
      std::chrono::duration<double>(timeout).count(), witness.peer, witness.block,
      describe_step(witness, algorithms), witness.expected, witness.seen);
  for (int rank = 0; rank < board.ranks(); ++rank) {
    text += "\n  " + board[rank].description;
    if (const auto& its = board[rank].record) text += "; " + describe_wait(*its, algorithms);
  }
  return text + hint;
}

}  // namespace plait
