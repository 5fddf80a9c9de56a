// A rank's log of its calls, in memory that all ranks read, so that ranks notice calls that differ.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device/launch_types.hpp"
#include "plait/call.hpp"

namespace plait {

/// The place of a call's buffers in symmetric memory, for calls that need the same place on all
/// ranks: window numbers, and offsets in bytes from the windows' starts.
struct Place {
  std::size_t send_window = 0, send_offset = 0, recv_window = 0, recv_offset = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// ", last extent fastest (LayoutRight)"; empty for `unsaid`.
std::string_view order_text(ArrayOrder order);

/// The facts of a call that must be equal on all ranks. The order of elements is an exception: a
/// rank that states none agrees with any, so the order is in no hash.
struct Signature {
  std::uint64_t count = 0;
  std::uint64_t facts = 0;    // collective, type, operation, algorithm, memory, order of elements
  std::uint64_t place = 0;    // a hash; of an own kernel its OwnExtents
  std::uint64_t options = 0;  // a hash of the launch shape and the scale

  static constexpr std::size_t no_algorithm = 0xffff;  // of an empty message
  static Signature of(const Call& call, std::size_t algorithm, LaunchShape shape,
                      const Place& place = {});
  Collective collective() const { return static_cast<Collective>(facts & 0xff); }
  DataType type() const { return static_cast<DataType>(facts >> 8 & 0xff); }
  ReduceOp op() const { return static_cast<ReduceOp>(facts >> 16 & 0xff); }
  std::size_t algorithm() const { return facts >> 24 & 0xffff; }
  ArrayOrder order() const { return static_cast<ArrayOrder>(facts >> order_bit & 3); }
  Signature without_order() const {
    return {count, facts & ~(std::uint64_t{3} << order_bit), place, options};
  }
  /// "all_reduce of 100 f32 elements, sum, in symmetric memory, by ring".
  std::string describe(const std::vector<std::string>& algorithms) const;
  /// True if the two are one call as two ranks made it.
  bool agrees_with(const Signature& other) const {
    return common() == other.common() && orders_agree(order(), other.order());
  }

  /// In the place of a call that the rank has refused. All refused calls agree with each other.
  /// `number`: of the refusal on its rank.
  static Signature refused(std::uint64_t number) { return {.count = number, .facts = no_call}; }
  bool is_refused() const { return facts == no_call; }
  std::uint64_t refusal() const { return count; }
  /// The facts that are compared: those that all ranks must have.
  Signature common() const { return is_refused() ? refused(0) : without_order(); }
  static bool orders_agree(ArrayOrder a, ArrayOrder b) {
    return a == b || a == ArrayOrder::unsaid || b == ArrayOrder::unsaid;
  }
  friend bool operator==(const Signature&, const Signature&) = default;

 private:
  static constexpr int order_bit = 42;
  static constexpr std::uint64_t no_call = 0xff;  // no collective has this number
};

/// The parts of CallLog that don't depend on its length.
struct CallLogs {
  /// Two ranks' calls of one number that differ. `exact`: `call` itself differs; else an earlier
  /// one does, which has left the logs.
  struct Difference {
    std::uint64_t call;
    bool exact;
    Signature mine, theirs;
  };
  /// Extends the hash of all calls up to one by the next call. Through that hash a difference shows
  /// also after its call was overwritten, but for a difference in the order of elements.
  /// `common`: as Signature's.
  static std::uint64_t hash(std::uint64_t before, const Signature& common);
};

/// The last `Remembered` of a rank's calls, numbered from 1. That rank writes it; any rank reads it
/// at any moment. Every field is atomic and the number is stored last: a diagnosis needs no
/// sequence lock.
template <std::uint64_t Remembered>
class alignas(64) CallLog {
 public:
  static constexpr std::uint64_t remembered = Remembered;

  /// The number of the last call; 0: none yet.
  std::uint64_t last() const { return sequence_.load(std::memory_order_acquire); }
  /// The number of the last call that stated an order of its elements; 0: none did.
  std::uint64_t last_ordered() const { return ordered_.load(std::memory_order_acquire); }
  /// The number of the last call that was refused; 0: none was.
  std::uint64_t last_refused() const { return refused_.load(std::memory_order_acquire); }
  /// The number of the first call that the log may have; earlier ones were never written.
  std::uint64_t begins() const { return begins_.load(std::memory_order_acquire); }
  /// Of a copy of another rank's log, which has missed calls before `call`: `history` is the hash
  /// of them all.
  void skip_to(std::uint64_t call, std::uint64_t history) {
    entries_[(call - 1) % Remembered].history.store(history, std::memory_order_relaxed);
    begins_.store(call, std::memory_order_release);
  }
  /// `call` must still be in the log.
  Signature at(std::uint64_t call) const {
    const Entry& entry = entries_[call % Remembered];
    const auto acquire = std::memory_order_acquire;
    return {entry.count.load(acquire), entry.facts.load(acquire), entry.place.load(acquire),
            entry.options.load(acquire)};
  }
  struct Copy {
    Signature signature;
    std::uint64_t history = 0;
    bool whole = false;  // no later call was overwriting it during the copy
  };
  Copy copy(std::uint64_t call) const {
    Copy copy{at(call), entries_[call % Remembered].history.load(std::memory_order_acquire), false};
    copy.whole = writing_.load(std::memory_order_relaxed) < call + Remembered;
    return copy;
  }

  /// `call` is one after the last. Costs a few stores.
  void publish(std::uint64_t call, const Signature& signature) {
    publish(call, signature, signature.without_order());
  }
  /// The same for a call that may be one that was refused.
  void publish_any(std::uint64_t call, const Signature& signature) {
    if (signature.is_refused()) refused_.store(call, std::memory_order_release);
    publish(call, signature, signature.common());
  }

 private:
  void publish(std::uint64_t call, const Signature& signature, const Signature& common) {
    const auto relaxed = std::memory_order_relaxed, release = std::memory_order_release;
    Entry& entry = entries_[call % Remembered];
    const std::uint64_t before = entries_[(call - 1) % Remembered].history.load(relaxed);
    // First, because from here on the entry's old call is gone: a reader that sees a new field in
    // the entry sees this number, too.
    writing_.store(call, relaxed);
    entry.count.store(signature.count, release);
    entry.facts.store(signature.facts, release);
    entry.place.store(signature.place, release);
    entry.options.store(signature.options, release);
    entry.history.store(CallLogs::hash(before, common), release);
    if (signature.order() != ArrayOrder::unsaid) ordered_.store(call, release);
    sequence_.store(call, release);
  }

  struct Entry {
    std::atomic<std::uint64_t> count, facts, place, options, history;
  };
  std::atomic<std::uint64_t> sequence_;  // of the last call
  std::atomic<std::uint64_t> writing_;  // the call whose entry is being written or was written last
  std::atomic<std::uint64_t> ordered_;
  std::atomic<std::uint64_t> begins_;
  std::atomic<std::uint64_t> refused_;
  Entry entries_[Remembered];
};

/// Compares the calls that two ranks have published after `compared`, the last call up to which
/// they are known to agree, and advances it. Costs a few loads.
template <std::uint64_t Remembered>
std::optional<CallLogs::Difference> compare_logs(const CallLog<Remembered>& mine,
                                                 const CallLog<Remembered>& theirs,
                                                 std::uint64_t& compared) {
  using Copy = typename CallLog<Remembered>::Copy;
  const std::uint64_t last = mine.last();
  if (compared >= last) return std::nullopt;  // without touching a line that another core writes
  const std::uint64_t common = std::min(last, theirs.last());
  if (compared >= common) return std::nullopt;
  // Mine are still among the calls that the copy of the other log has missed.
  if (common < theirs.begins()) return std::nullopt;
  const auto differ = [&](std::uint64_t call, auto agree) -> std::optional<CallLogs::Difference> {
    const Copy a = mine.copy(call), b = theirs.copy(call);
    if (!a.whole || !b.whole || agree(a, b)) return std::nullopt;
    return CallLogs::Difference{call, !a.signature.agrees_with(b.signature), a.signature,
                                b.signature};
  };
  // The histories tell whether anything but an order differs. If so, or if both ranks state orders,
  // the first call that differs is searched from as far back as is safe to read.
  const auto any =
      differ(common, [](const Copy& a, const Copy& b) { return a.history == b.history; });
  if (any || std::min(mine.last_ordered(), theirs.last_ordered()) > compared) {
    const std::uint64_t oldest =
        std::max({compared + 1, theirs.begins(),
                  common > Remembered / 2 ? common - Remembered / 2 : std::uint64_t{1}});
    for (std::uint64_t call = oldest; call <= common; ++call)
      if (const auto found = differ(call, [](const Copy& a, const Copy& b) {
            return a.signature.agrees_with(b.signature);
          }))
        return found;
  }
  if (any) return any;
  compared = common;
  return std::nullopt;
}

}  // namespace plait
