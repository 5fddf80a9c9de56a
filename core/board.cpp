#include "core/board.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

#include "symm_mem/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Written by its rank only. A sequence lock would be more than a diagnosis needs: every field is atomic, and the number is stored last.
struct Board::Page {
  std::atomic<std::int32_t> process;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint8_t> collective, type, op;
  std::atomic<char> algorithm[32];
  std::atomic<Board::State> state;
  std::atomic<char> reason[200];
  std::atomic<bool> has_record;
  static constexpr std::size_t record_words = sizeof(DiagnosticRecord) / sizeof(std::uint32_t);
  std::atomic<std::uint32_t> record[record_words];
};

namespace {

/// Texts in pages are short arrays of atomic characters, ended by a zero.
template <std::size_t Size>
void write(std::atomic<char> (&to)[Size], std::string_view text) {
  const std::size_t length = std::min(text.size(), Size - 1);
  for (std::size_t i = 0; i <= length; ++i) to[i].store(i < length ? text[i] : '\0', std::memory_order_relaxed);
}
template <std::size_t Size>
std::string read(const std::atomic<char> (&from)[Size]) {
  std::string text;
  for (const auto& c : from) {
    const char character = c.load(std::memory_order_relaxed);
    if (character == '\0') break;
    text += character;
  }
  return text;
}

}  // namespace

Board::Board(Bootstrap& bootstrap) : rank_(bootstrap.rank()) {
  // Host memory on every backend, so the host target's shared memory serves all.
  std::shared_ptr<Backend> host;
  agree(bootstrap, "creating the board", [&] { host = open_backend(BackendKind::host, 0); });
  SymmetricHeap heap(host, bootstrap);
  range_ = heap.allocate_range(sizeof(Page), "creating the board");
  page(rank_).process = static_cast<std::int32_t>(getpid());
  bootstrap.barrier();
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    const pid_t process = page(rank).process;
    processes_.emplace_back(process == getpid() ? -1 : static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  }
}

Board::Page& Board::page(int rank) const { return *reinterpret_cast<Page*>(range_->address(rank)); }

void Board::publish(std::uint64_t sequence, const Call& call, std::string_view algorithm) {
  Page& mine = page(rank_);
  const auto relaxed = std::memory_order_relaxed;
  mine.count.store(call.count, relaxed);
  mine.collective.store(static_cast<std::uint8_t>(call.collective), relaxed);
  mine.type.store(static_cast<std::uint8_t>(call.type), relaxed);
  mine.op.store(static_cast<std::uint8_t>(call.op), relaxed);
  write(mine.algorithm, algorithm);
  mine.sequence.store(sequence, std::memory_order_release);
}

void Board::announce(State state, std::string_view reason) noexcept {
  Page& mine = page(rank_);
  if (mine.state.load() != State::working) return;
  write(mine.reason, reason);
  mine.state.store(state, std::memory_order_release);
}

Board::State Board::state(int rank) const noexcept { return page(rank).state.load(std::memory_order_acquire); }
std::string Board::reason(int rank) const { return read(page(rank).reason); }

void Board::show(const DiagnosticRecord& record) noexcept {
  Page& mine = page(rank_);
  if (mine.has_record.load()) return;
  std::uint32_t words[Page::record_words];
  std::memcpy(words, &record, sizeof(words));
  for (std::size_t i = 0; i < Page::record_words; ++i) mine.record[i].store(words[i], std::memory_order_relaxed);
  mine.has_record.store(true, std::memory_order_release);
}

std::optional<DiagnosticRecord> Board::record(int rank) const noexcept {
  const Page& other = page(rank);
  if (!other.has_record.load(std::memory_order_acquire)) return std::nullopt;
  std::uint32_t words[Page::record_words];
  for (std::size_t i = 0; i < Page::record_words; ++i) words[i] = other.record[i].load(std::memory_order_relaxed);
  DiagnosticRecord record;
  static_assert(sizeof(record) == sizeof(words));
  std::memcpy(&record, words, sizeof(record));
  return record;
}

bool Board::is_alive(int rank) const {
  const UniqueFd& process = processes_[static_cast<std::size_t>(rank)];
  const pid_t id = page(rank).process;
  if (id == getpid()) return true;
  if (!process.valid()) return kill(id, 0) == 0;  // no pidfd: an old kernel, or the process was gone already
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) == 0;
}

int Board::missing_rank(int suspect) const {
  for (int rank = 0; rank < ranks(); ++rank)
    if (!is_alive(rank)) return rank;
  int last = suspect;
  for (int rank = 0; rank < ranks(); ++rank)
    if (page(rank).sequence.load() < page(last).sequence.load()) last = rank;
  return last;
}

std::string Board::describe(int rank) const {
  const Page& other = page(rank);
  const std::uint64_t sequence = other.sequence.load(std::memory_order_acquire);
  const std::string name = read(other.algorithm);
  const std::string who = fmt::format("rank {} (process {}{})", rank, other.process.load(), is_alive(rank) ? "" : ", which has ended");
  if (sequence == 0) return who + ": no call yet";
  return fmt::format("{}: last call {}, {} of {} {} elements, {}, by {}", who, sequence,
                     name_of(static_cast<Collective>(other.collective.load())), other.count.load(),
                     name_of(static_cast<DataType>(other.type.load())), name_of(static_cast<ReduceOp>(other.op.load())), name);
}

}  // namespace plait
