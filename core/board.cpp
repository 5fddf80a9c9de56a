#include "core/board.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/collectives.hpp"
#include "symm_mem/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Written by its rank only. A sequence lock would be more than a diagnosis needs: every field is atomic, and the number is stored last.
struct Board::Page {
  std::atomic<std::int32_t> process;
  std::atomic<std::uint64_t> process_space;         // in which the number is valid
  alignas(64) std::atomic<std::uint64_t> sequence;  // of the last call
  /// The last calls. `history` is a hash of all calls up to this one, so that a difference shows also after its call was overwritten.
  struct Entry {
    std::atomic<std::uint64_t> count, facts, options, history;
  };
  static constexpr std::uint64_t remembered = 1024;
  Entry calls[remembered];
  Entry& of(std::uint64_t call) { return calls[call % remembered]; }
  const Entry& of(std::uint64_t call) const { return calls[call % remembered]; }

  std::atomic<std::uint64_t> writing;  // the call whose entry is being written, or was last

  std::atomic<Board::State> state;
  std::atomic<ErrorCode> code;
  std::atomic<char> reason[501];
  std::atomic<bool> has_record;
  static constexpr std::size_t record_words = sizeof(DiagnosticRecord) / sizeof(std::uint32_t);
  std::atomic<std::uint32_t> record[record_words];
};

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

std::uint64_t process_space() {
  struct stat space {};
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}
bool exists(pid_t process) { return kill(process, 0) == 0 || errno == EPERM; }

constexpr int symmetric_bit = 40, in_place_bit = 41, root_bit = 44;

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
  page(rank_).process_space = process_space();
  bootstrap.barrier();
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    const pid_t process = page(rank).process;
    compared_.push_back(0);
    // Ranks in containers of their own may have numbers that mean nothing here, or somebody else.
    const bool visible = page(rank).process_space == process_space() && process != getpid();
    processes_.push_back({UniqueFd(visible ? static_cast<int>(syscall(SYS_pidfd_open, process, 0)) : -1), visible && exists(process)});
  }
}

Signature Signature::of(const Call& call, std::size_t algorithm, LaunchShape shape) {
  const auto place = std::uint64_t{call.symmetric} << symmetric_bit | std::uint64_t{call.in_place} << in_place_bit |
                     static_cast<std::uint64_t>(call.root) << root_bit;
  return {.count = call.count,
          .facts = static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.type) << 8 |
                   static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(algorithm) << 24 | place,
          .options = mix(mix(shape.blocks, shape.threads), std::bit_cast<std::uint64_t>(call.scale))};
}

std::string Signature::describe(const std::vector<std::string>& algorithms) const {
  const char* const memory = (facts >> symmetric_bit & 1) == 0  ? ""
                             : (facts >> in_place_bit & 1) == 0 ? ", in symmetric memory"
                                                                : ", in place in symmetric memory";
  const CollectiveFacts what = facts_of(collective());
  return fmt::format("{} of {} {} elements{}{}{}, by {}", name_of(collective()), count, name_of(type()),
                     what.reduces ? fmt::format(", {}", name_of(op())) : "", what.rooted ? fmt::format(", root {}", facts >> root_bit) : "",
                     memory, algorithm() < algorithms.size() ? algorithms[algorithm()] : "an unknown algorithm");
}

Board::Page& Board::page(int rank) const { return *reinterpret_cast<Page*>(range_->address(rank)); }

void Board::publish(std::uint64_t sequence, const Signature& signature) {
  Page& mine = page(rank_);
  const auto relaxed = std::memory_order_relaxed;
  Page::Entry& entry = mine.of(sequence);
  const std::uint64_t before = mine.of(sequence - 1).history.load(relaxed);
  const auto release = std::memory_order_release;
  // What the entry held before is gone from here on: who sees something new in it then also sees this.
  mine.writing.store(sequence, relaxed);
  entry.count.store(signature.count, release);
  entry.facts.store(signature.facts, release);
  entry.options.store(signature.options, release);
  entry.history.store(mix(mix(mix(before, signature.count), signature.facts), signature.options), release);
  mine.sequence.store(sequence, release);
}

std::optional<Board::Disagreement> Board::compare() {
  const auto acquire = std::memory_order_acquire;
  const Page& mine = page(rank_);
  const std::uint64_t last = mine.sequence.load(acquire);
  struct Copy {
    Signature signature;
    std::uint64_t history = 0;
    bool whole = false;  // it is that call's, and was not overwritten meanwhile
  };
  const auto copy_of = [&](const Page& page, std::uint64_t call) {
    const Page::Entry& entry = page.of(call);
    Copy copy{{entry.count.load(acquire), entry.facts.load(acquire), entry.options.load(acquire)}, entry.history.load(acquire), false};
    copy.whole = page.writing.load(std::memory_order_relaxed) < call + Page::remembered;
    return copy;
  };
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_) continue;
    const Page& other = page(rank);
    std::uint64_t& compared = compared_[static_cast<std::size_t>(rank)];
    const std::uint64_t common = std::min(last, other.sequence.load(acquire));
    if (compared >= common) continue;
    const auto differ = [&](std::uint64_t call, auto member) -> std::optional<Disagreement> {
      const Copy a = copy_of(mine, call), b = copy_of(other, call);
      if (!a.whole || !b.whole || member(a) == member(b)) return std::nullopt;
      return Disagreement{rank, call, a.signature != b.signature, a.signature, b.signature};
    };
    // The histories tell whether there is anything to find; then the first call that differs, as far back as both remember.
    const auto any = differ(common, [](const Copy& copy) { return copy.history; });
    if (any) {
      const std::uint64_t oldest = std::max(compared + 1, common > Page::remembered / 2 ? common - Page::remembered / 2 : 1);
      for (std::uint64_t call = oldest; call <= common; ++call)
        if (const auto found = differ(call, [](const Copy& copy) { return copy.signature; })) return found;
      return any;
    }
    compared = common;
  }
  return std::nullopt;
}

void Board::announce(State state, ErrorCode code, std::string_view reason) noexcept {
  Page& mine = page(rank_);
  if (mine.state.load() != State::working) return;
  mine.code.store(code, std::memory_order_relaxed);
  write(mine.reason, reason);
  mine.state.store(state, std::memory_order_release);
}

Board::State Board::state(int rank) const noexcept { return page(rank).state.load(std::memory_order_acquire); }
Error Board::reason(int rank) const { return {page(rank).code.load(std::memory_order_relaxed), read(page(rank).reason)}; }

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
  const Process& process = processes_[static_cast<std::size_t>(rank)];
  if (!process.handle.valid()) return !process.visible || exists(page(rank).process);  // an old kernel, or no descriptor was left
  pollfd ended{.fd = process.handle.get(), .events = POLLIN, .revents = 0};
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

std::string Board::describe(int rank, const std::vector<std::string>& algorithms) const {
  const Page& other = page(rank);
  const std::uint64_t sequence = other.sequence.load(std::memory_order_acquire);
  const std::string who = fmt::format("rank {} (process {}{})", rank, other.process.load(), is_alive(rank) ? "" : ", which has ended");
  if (sequence == 0) return who + ": no call yet";
  const Page::Entry& entry = other.of(sequence);
  const Signature signature{entry.count.load(), entry.facts.load(), entry.options.load()};
  return fmt::format("{}: last call {}, {}", who, sequence, signature.describe(algorithms));
}

}  // namespace plait
