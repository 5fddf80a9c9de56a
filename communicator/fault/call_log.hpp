// What a rank says of its calls, in memory that all ranks read: so that calls that differ are
// noticed.
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

/// Where in symmetric memory the buffers of a call lie that must lie at one place on all ranks:
/// numbers of windows, and bytes from their starts.
struct Place {
  std::size_t send_window = 0, send_offset = 0, recv_window = 0, recv_offset = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// ", last extent fastest (LayoutRight)"; empty if none was said.
std::string_view order_text(ArrayOrder order);

/// What ranks must have the same in a call. The order of elements is apart: a rank that says none
/// agrees with any, so it is in no hash.
struct Signature {
  std::uint64_t count = 0;
  std::uint64_t facts = 0;    // collective, type, operation, algorithm, memory, order of elements
  std::uint64_t place = 0;    // a hash
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
  /// Whether these are calls that belong together.
  bool agrees_with(const Signature& other) const {
    return without_order() == other.without_order() && orders_agree(order(), other.order());
  }
  static bool orders_agree(ArrayOrder a, ArrayOrder b) {
    return a == b || a == ArrayOrder::unsaid || b == ArrayOrder::unsaid;
  }
  friend bool operator==(const Signature&, const Signature&) = default;

 private:
  static constexpr int order_bit = 42;
};

/// What two logs of any length have in common.
struct CallLogs {
  /// Where calls of one number differ. `exact`: in `call` itself; else it is in an earlier call,
  /// which nobody remembers any more.
  struct Difference {
    std::uint64_t call;
    bool exact;
    Signature mine, theirs;
  };
  /// A hash of all calls up to one: a difference shows also after its call was overwritten, but for
  /// one in the order of elements.
  static std::uint64_t hash(std::uint64_t before, const Signature& signature);
};

/// The last `Remembered` of a rank's calls, numbered from 1. Written by that rank, read by any at
/// any moment. A sequence lock would be more than a diagnosis needs: every field is atomic, and the
/// number is stored last.
template <std::uint64_t Remembered>
class alignas(64) CallLog {
 public:
  static constexpr std::uint64_t remembered = Remembered;

  /// Of the last call; 0: none yet.
  std::uint64_t last() const { return sequence_.load(std::memory_order_acquire); }
  /// Of the last call that said an order of its elements; 0: none did.
  std::uint64_t last_ordered() const { return ordered_.load(std::memory_order_acquire); }
  /// Of a call that is still remembered.
  Signature at(std::uint64_t call) const {
    const Entry& entry = entries_[call % Remembered];
    const auto acquire = std::memory_order_acquire;
    return {entry.count.load(acquire), entry.facts.load(acquire), entry.place.load(acquire),
            entry.options.load(acquire)};
  }
  struct Copy {
    Signature signature;
    std::uint64_t history = 0;
    bool whole = false;  // it is that call's, and was not overwritten meanwhile
  };
  Copy copy(std::uint64_t call) const {
    Copy copy{at(call), entries_[call % Remembered].history.load(std::memory_order_acquire), false};
    copy.whole = writing_.load(std::memory_order_relaxed) < call + Remembered;
    return copy;
  }

  /// `call` is one after the last. A few stores.
  void publish(std::uint64_t call, const Signature& signature) {
    const auto relaxed = std::memory_order_relaxed, release = std::memory_order_release;
    Entry& entry = entries_[call % Remembered];
    const std::uint64_t before = entries_[(call - 1) % Remembered].history.load(relaxed);
    // What the entry held before is gone from here on: who sees something new in it then also sees
    // this.
    writing_.store(call, relaxed);
    entry.count.store(signature.count, release);
    entry.facts.store(signature.facts, release);
    entry.place.store(signature.place, release);
    entry.options.store(signature.options, release);
    entry.history.store(CallLogs::hash(before, signature), release);
    if (signature.order() != ArrayOrder::unsaid) ordered_.store(call, release);
    sequence_.store(call, release);
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> count, facts, place, options, history;
  };
  std::atomic<std::uint64_t> sequence_;  // of the last call
  std::atomic<std::uint64_t> writing_;   // the call whose entry is being written, or was last
  std::atomic<std::uint64_t> ordered_;
  Entry entries_[Remembered];
};

/// Compares what two ranks have published after `compared`, the last call up to which they are
/// known to agree: a few loads. Moves that on.
template <std::uint64_t Remembered>
std::optional<CallLogs::Difference> compare_logs(const CallLog<Remembered>& mine,
                                                 const CallLog<Remembered>& theirs,
                                                 std::uint64_t& compared) {
  using Copy = typename CallLog<Remembered>::Copy;
  const std::uint64_t last = mine.last();
  if (compared >= last) return std::nullopt;  // without a look at what another core writes
  const std::uint64_t common = std::min(last, theirs.last());
  if (compared >= common) return std::nullopt;
  const auto differ = [&](std::uint64_t call, auto agree) -> std::optional<CallLogs::Difference> {
    const Copy a = mine.copy(call), b = theirs.copy(call);
    if (!a.whole || !b.whole || agree(a, b)) return std::nullopt;
    return CallLogs::Difference{call, !a.signature.agrees_with(b.signature), a.signature,
                                b.signature};
  };
  // The histories tell whether there is anything to find, but for orders; then the first call that
  // differs, as far back as both remember.
  const auto any =
      differ(common, [](const Copy& a, const Copy& b) { return a.history == b.history; });
  if (any || std::min(mine.last_ordered(), theirs.last_ordered()) > compared) {
    const std::uint64_t oldest =
        std::max(compared + 1, common > Remembered / 2 ? common - Remembered / 2 : 1);
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
