#include "communicator/fault/board.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/call_bootstrap.hpp"
#include "communicator/fault/board_page.hpp"
#include "core/process_space.hpp"
#include "core/standard_fds.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

constexpr const char* creating = "creating the board";

bool exists(pid_t process) { return kill(process, 0) == 0 || errno == EPERM; }

}  // namespace

Board::Board(Bootstrap& bootstrap, const Nodes& nodes, std::uint64_t token,
             const std::vector<std::int32_t>& processes)
    : pages_(new std::atomic<std::byte*>[static_cast<std::size_t>(bootstrap.size())]()),
      nodes_(nodes),
      rank_(bootstrap.rank()),
      exchanges_(new std::atomic<bool>[static_cast<std::size_t>(bootstrap.size())]()),
      lost_(new std::atomic<bool>[static_cast<std::size_t>(bootstrap.size())]()),
      compares_(new std::atomic<bool>[static_cast<std::size_t>(bootstrap.size())]()) {
  // Host memory on every backend, so the host target's shared memory serves all.
  agree_here(nodes, creating, [&] {
    host_ = open_backend(BackendKind::host, 0);
    silence_ = new_copy();
  });
  SymmetricHeap heap(host_, bootstrap, nodes.are_several() ? &nodes : nullptr);
  const std::size_t bytes = desk_offset(bootstrap.size()) + CallBootstrap::desk_bytes();
  // Most pairs of ranks of several nodes exchange no messages.
  range_ = heap.allocate_here(bytes, token, creating,
                              nodes.are_several() ? Commit::on_touch : Commit::at_once);
  agree_here(nodes, creating, [&] {  // so nobody reads a page before its owner has written to it
    for (int rank = 0; rank < bootstrap.size(); ++rank)
      pages_[static_cast<std::size_t>(rank)] =
          nodes.is_here(rank) ? range_->address(rank) : silence_;
    page(rank_).process_space = process_space();
  });
  refused_by_all_ = &page(nodes_.ranks_here().front()).refused_by_all;
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    const pid_t process = processes[static_cast<std::size_t>(rank)];
    compared_.emplace_back();
    told_messages_.push_back(0);
    // The number of a rank in another container may mean nothing here, or another process.
    const bool visible =
        nodes.is_here(rank) && page(rank).process_space == process_space() && process != getpid();
    processes_.push_back(
        {visible ? new_fd([&] { return syscall(SYS_pidfd_open, process, 0); }) : UniqueFd(),
         visible && exists(process), process});
  }
}

std::size_t Board::desk_offset(int ranks) {
  return sizeof(Page) + 2 * static_cast<unsigned>(ranks) * sizeof(MessageLog);
}
std::vector<void*> Board::desks() const {
  std::vector<void*> desks;
  for (int rank = 0; rank < ranks(); ++rank)
    desks.push_back(nodes_.is_here(rank) ? address(rank) + desk_offset(ranks()) : nullptr);
  return desks;
}
std::byte* Board::new_copy() {
  return copies_
      .emplace_back(allocate_zeroed<std::byte>(host_, sizeof(Page) + 2 * sizeof(MessageLog)))
      .get();
}
Board::Page& Board::page(int rank) const { return *reinterpret_cast<Page*>(address(rank)); }
Board::Page& Board::heard(int rank) {
  if (is_silent(rank))
    pages_[static_cast<std::size_t>(rank)].store(new_copy(), std::memory_order_release);
  return page(rank);
}
Board::MessageLog& Board::messages(int owner, bool sends, int peer) const {
  const bool is_known = owner != rank_ || exchanges_[static_cast<std::size_t>(peer)];
  std::byte* const page = is_known ? address(owner) : silence_;
  const int pair = is_known && nodes_.is_here(owner) ? peer : 0;
  return reinterpret_cast<MessageLog*>(page + sizeof(Page))[2 * pair + (sends ? 0 : 1)];
}
Board::MessageLog& Board::own_messages(bool sends, int peer) {
  exchanges_[static_cast<std::size_t>(peer)] = true;
  page(rank_).has_messages = true;
  return messages(rank_, sends, peer);
}

void Board::publish(std::uint64_t sequence, const Signature& signature) {
  page(rank_).calls.publish(sequence, signature);
}
void Board::publish_message(int peer, bool sends, const Signature& signature) {
  MessageLog& log = own_messages(sends, peer);
  log.publish(log.last() + 1, signature);
  if (sends) has_sent_ = true;  // last: who takes the flag finds the message
}

void Board::publish_refused(const RefusedNumbers& numbers, std::uint64_t sequence,
                            std::string_view why) {
  Page& mine = page(rank_);
  const std::uint64_t number = mine.refused.load() + 1;
  if (!refusal_is_pending()) first_kept_refusal_ = number;
  if (number - first_kept_refusal_ < std::size(mine.refusals)) {
    Page::Refusal& kept = mine.refusals[number % std::size(mine.refusals)];
    write_text(kept.why, why);
    kept.call.store(numbers.collective ? sequence : 0, std::memory_order_relaxed);
    kept.number.store(number, std::memory_order_release);
  }
  mine.refused.store(number);
  const Signature refused = Signature::refused(number);
  if (numbers.collective) mine.calls.publish_any(sequence, refused);
  for (const auto& [peer, sends] : numbers.messages_of(rank_, ranks())) {
    MessageLog& log = own_messages(sends, peer);
    log.publish_any(log.last() + 1, refused);
    if (sends) has_sent_ = true;
  }
  refused_by_all_->fetch_add(1);
}

std::string Board::why_refused(int rank, const Signature& signature) const {
  const auto& kept = page(rank).refusals[signature.refusal() % std::size(page(rank).refusals)];
  return kept.number.load(std::memory_order_acquire) == signature.refusal()
             ? ": " + read_text(kept.why)
             : "";
}

std::optional<Board::Disagreement> Board::compare_refused(int rank, bool& pending) const {
  const auto& mine = page(rank_).calls;
  for (const Page::Refusal& its : page(rank).refusals) {
    const std::uint64_t number = its.number.load(std::memory_order_acquire), call = its.call;
    if (number == 0 || call == 0) continue;
    pending = pending || call > mine.last();
    if (call > mine.last() || mine.last() - call > mine.remembered / 2) continue;
    const auto copy = mine.copy(call);
    if (copy.whole && !copy.signature.is_refused())
      return Disagreement{{call, true, copy.signature, Signature::refused(number)},
                          Disagreement::Kind::collective,
                          rank};
  }
  return std::nullopt;
}

std::optional<Board::Disagreement> Board::compare() {
  using enum Disagreement::Kind;
  const std::uint64_t refused = refused_by_all_->load(std::memory_order_acquire);
  bool pending = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    const bool is_here = nodes_.is_here(rank);
    if (rank == rank_ || is_silent(rank)) continue;
    Compared& compared = compared_[static_cast<std::size_t>(rank)];
    const auto differ = [&](Disagreement::Kind kind, const auto& mine, const auto& theirs,
                            std::uint64_t& up_to) {
      const auto found = compare_logs(mine, theirs, up_to);
      pending = pending || up_to < std::max(mine.last_refused(), theirs.last_refused());
      return found ? std::optional(Disagreement{*found, kind, rank}) : std::nullopt;
    };
    if (is_here || compares_[static_cast<std::size_t>(rank)]) {
      if (const auto found =
              differ(collective, page(rank_).calls, page(rank).calls, compared.calls))
        return found;
    } else if (const auto found = compare_refused(rank, pending)) {
      return found;
    }
    // Between nodes the sender tells its messages, and the receiver compares.
    if (is_here)
      if (const auto found = differ(sent, messages(rank_, true, rank), messages(rank, false, rank_),
                                    compared.sent))
        return found;
    if (const auto found = differ(received, messages(rank_, false, rank),
                                  messages(rank, true, rank_), compared.received))
      return found;
  }
  if (!pending) settled_refusals_.store(refused, std::memory_order_relaxed);
  return std::nullopt;
}

void Board::announce(State state, ErrorCode code, std::string_view reason) noexcept {
  Page& mine = page(rank_);
  if (mine.state.load() != State::working) return;
  mine.code.store(code, std::memory_order_relaxed);
  write_text(mine.reason, reason);
  mine.state.store(state, std::memory_order_release);
}

Board::State Board::state(int rank) const noexcept {
  return page(rank).state.load(std::memory_order_acquire);
}
Error Board::reason(int rank) const {
  return {page(rank).code.load(std::memory_order_relaxed), read_text(page(rank).reason)};
}

void Board::say_elsewhere(std::string_view where) noexcept {
  if (Page& mine = page(rank_); mine.state.load() == State::working)
    write_text(mine.elsewhere, where);
}
std::string Board::elsewhere(int rank) const { return read_text(page(rank).elsewhere); }

std::vector<int> Board::behind() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < this->ranks(); ++rank)
    if (calls(rank) < calls(rank_) ||
        messages(rank, true, rank_).last() < messages(rank_, false, rank).last())
      ranks.push_back(rank);
  return ranks;
}

void Board::show(const DiagnosticRecord& record) noexcept {
  Page& mine = page(rank_);
  if (mine.has_record.load()) return;
  std::uint32_t words[Page::record_words];
  std::memcpy(words, &record, sizeof(words));
  for (std::size_t i = 0; i < Page::record_words; ++i)
    mine.record[i].store(words[i], std::memory_order_relaxed);
  mine.has_record.store(true, std::memory_order_release);
}

std::optional<DiagnosticRecord> Board::record(int rank) const noexcept {
  const Page& other = page(rank);
  if (!other.has_record.load(std::memory_order_acquire)) return std::nullopt;
  std::uint32_t words[Page::record_words];
  for (std::size_t i = 0; i < Page::record_words; ++i)
    words[i] = other.record[i].load(std::memory_order_relaxed);
  DiagnosticRecord record;
  static_assert(sizeof(record) == sizeof(words));
  std::memcpy(&record, words, sizeof(record));
  return record;
}

/// The order of the loads counts, because peers go on meanwhile. Life before state: a rank that
/// leaves announces that before its process ends, so a rank that was dead first and is `working`
/// afterwards has announced nothing. All records before any count of calls: a rank publishes a call
/// before its kernel waits in it, so the count of a rank is never below the call in its record.
BoardSnapshot Board::snapshot(const std::vector<std::string>& algorithms) const {
  std::vector<RankSnapshot> pages(processes_.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const int rank = static_cast<int>(i);
    pages[i].alive = is_alive(rank);
    pages[i].state = state(rank);
    pages[i].record = record(rank);
    pages[i].elsewhere = elsewhere(rank);
    pages[i].is_here = nodes_.is_here(rank);
    pages[i].name = nodes_.name_of_rank(rank);
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const int rank = static_cast<int>(i);
    pages[i].calls = calls(rank);
    pages[i].description = describe(rank, algorithms);
  }
  return BoardSnapshot(std::move(pages));
}

namespace {

std::uint64_t packed(const Verdict& verdict) {
  return std::uint64_t{1} << 63 | static_cast<std::uint64_t>(verdict.kind) << 56 |
         static_cast<std::uint64_t>(verdict.rank) << 28 |
         static_cast<std::uint64_t>(verdict.witness);
}
Verdict unpacked(std::uint64_t word) {
  constexpr std::uint64_t number = (std::uint64_t{1} << 28) - 1;
  return {.kind = static_cast<Verdict::Kind>(word >> 56 & 0x7f),
          .rank = static_cast<int>(word >> 28 & number),
          .witness = static_cast<int>(word & number)};
}

}  // namespace

Verdict Board::settle(const Verdict& verdict) noexcept {
  std::uint64_t word = 0;
  auto& settled = page(nodes_.ranks_here().front()).verdict;
  return settled.compare_exchange_strong(word, packed(verdict)) ? verdict : unpacked(word);
}

std::optional<Verdict> Board::settled() const noexcept {
  const std::uint64_t word = page(nodes_.ranks_here().front()).verdict.load();
  return word != 0 ? std::optional(unpacked(word)) : std::nullopt;
}

bool Board::is_alive(int rank) const {
  if (!nodes_.is_here(rank)) return !lost_[static_cast<std::size_t>(rank)];
  const Process& process = processes_[static_cast<std::size_t>(rank)];
  // No handle: the system's kernel is old, or no descriptor was free.
  if (!process.handle.valid()) return !process.visible || exists(process.number);
  pollfd ended{.fd = process.handle.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) != 1;  // alive also if a signal interrupted the call
}

std::uint64_t Board::calls(int rank) const noexcept { return page(rank).calls.last(); }

namespace {

/// The last call after `theirs` in `mine` that was not refused: a refused call waits for nothing.
template <std::uint64_t Remembered>
std::optional<std::uint64_t> last_beyond(const CallLog<Remembered>& mine, std::uint64_t theirs) {
  const std::uint64_t last = mine.last();
  for (std::uint64_t call = last; call > theirs && last - call < Remembered; --call)
    if (!mine.at(call).is_refused()) return call;
  return std::nullopt;
}

}  // namespace

/// A rank that has left publishes nothing more. For messages only a receive counts, because a short
/// message is sent whether or not the peer takes it.
std::optional<std::string> Board::waits_in_vain_for(
    int rank, const std::vector<std::string>& algorithms) const {
  if (departure(rank).empty()) return std::nullopt;
  if (const auto call = last_beyond(page(rank_).calls, calls(rank)))
    return fmt::format(
        "rank {} has made call {}, {} (of 0 elements they are not counted: PLAIT_CHECK=1 compares "
        "counts)",
        rank_, *call, page(rank_).calls.at(*call).describe(algorithms));
  if (!nodes_.is_here(rank)) return std::nullopt;
  const MessageLog& received = messages(rank_, false, rank);
  if (const auto message = last_beyond(received, messages(rank, true, rank_).last()))
    return fmt::format("rank {} receives message {} from it, {}", rank_, *message,
                       received.at(*message).describe(algorithms));
  return std::nullopt;
}

std::string Board::describe(int rank, const std::vector<std::string>& algorithms) const {
  const Page& other = page(rank);
  const std::uint64_t sequence = other.calls.last();
  std::string_view gone = departure(rank);
  const bool is_here = nodes_.is_here(rank);
  if (gone.empty() && !is_alive(rank)) gone = is_here ? "has ended" : "is gone";
  const std::string subject = fmt::format("{} (process {}{}{})", nodes_.name_of_rank(rank),
                                          processes_[static_cast<std::size_t>(rank)].number,
                                          gone.empty() ? "" : ", which ", gone);
  const std::string exchanged = describe_messages(rank);
  // A rank of another node tells its last call once it has heard that others have given up.
  const bool is_up_to_date = is_here || state(rank) != State::working || record(rank);
  if (sequence == 0)
    return fmt::format("{}: no {} {}{}", subject, exchanged.empty() ? "call" : "collective",
                       is_up_to_date ? "yet" : "known on this node", exchanged);
  return fmt::format("{}: last call {}{}, {}{}", subject,
                     is_up_to_date ? "" : "known on this node ", sequence,
                     other.calls.at(sequence).describe(algorithms), exchanged);
}

/// Messages with a refused end are left out, because no data waits for their other end.
std::string Board::left_over() const {
  std::string text;
  for (const int peer : nodes_.ranks_here()) {
    const MessageLog& sends = messages(peer, true, rank_);
    const std::uint64_t sent = sends.last(), received = messages(rank_, false, peer).last();
    if (sent > received && sends.last_refused() <= received)
      text += fmt::format("{}{} from rank {}", text.empty() ? "" : ", ", sent - received, peer);
  }
  return text;
}

std::string Board::apart() const {
  std::string text;
  for (const int peer : nodes_.ranks_here()) {
    const MessageLog &sends = messages(peer, true, rank_), &receives = messages(rank_, false, peer);
    const std::uint64_t sent = sends.last(), received = receives.last();
    const bool refused =
        std::max(sends.last_refused(), receives.last_refused()) > std::min(sent, received);
    if (sent != received && !refused)
      text += fmt::format("{}rank {} has sent {}, and {} are received", text.empty() ? "" : "; ",
                          peer, sent, received);
  }
  return text;
}

std::string Board::describe_messages(int rank) const {
  constexpr int most_peers = 8;
  std::string text;
  int peers = 0;
  const bool is_here = nodes_.is_here(rank);
  if (is_here && !page(rank).has_messages) return text;
  for (int peer = is_here ? 0 : rank_; peer < (is_here ? ranks() : rank_ + 1); ++peer) {
    const std::uint64_t sent = messages(rank, true, peer).last(),
                        received = messages(rank, false, peer).last();
    if (sent == 0 && received == 0) continue;
    if (++peers > most_peers) return text + ", ...";
    text += peers == 1 ? "; messages: " : ", ";
    if (sent != 0) text += fmt::format("{} to ", sent);
    if (received != 0) text += fmt::format("{}{} from ", sent != 0 ? "and " : "", received);
    text += fmt::format("rank {}", peer);
  }
  return text;
}

}  // namespace plait
