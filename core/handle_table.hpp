// The objects behind the handles that interfaces for C give out.
#pragma once
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backoff.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"

namespace plait {

enum class HandleKind : std::uint64_t {
  communicator = 1,
  buffer = 2,
  nccl_communicator = 3,
  nccl_window = 4
};

constexpr std::string_view name_of(HandleKind kind) {
  return kind == HandleKind::communicator  ? "communicator"
         : kind == HandleKind::buffer      ? "buffer"
         : kind == HandleKind::nccl_window ? "NCCL window"
                                           : "NCCL communicator";
}

/// The number that a caller holds as a pointer: a serial number that is never used again, the place
/// in the table, and the kind.
struct HandleId {
  static constexpr unsigned kind_bits = 4, place_bits = 20;
  static constexpr std::uint64_t most_places = std::uint64_t{1} << place_bits;

  static constexpr HandleId make(std::uint64_t serial, std::uint64_t place, HandleKind kind) {
    return {(serial << place_bits | place) << kind_bits | static_cast<std::uint64_t>(kind)};
  }
  constexpr std::uint64_t kind() const { return value & ((1u << kind_bits) - 1); }
  constexpr std::uint64_t place() const { return value >> kind_bits & (most_places - 1); }
  constexpr std::uint64_t serial() const { return value >> (kind_bits + place_bits); }

  std::uint64_t value = 0;  // 0: none
};
static_assert(sizeof(void*) == sizeof(HandleId),
              "handles are numbers of 64 bits in the guise of pointers");

/// The next serial number; handles of all kinds that one shared object gives out share it.
inline std::atomic<std::uint64_t> next_serial = 1;

/// The pace of a wait for the users of a handle, which may be long.
inline constexpr Backoff::Pace pace_of_users{.spins = 100, .sleep = std::chrono::microseconds(50)};

/// Handles of one kind. A look-up takes no lock: it first counts itself as a user of the slot, and
/// then checks whether the slot still belongs to the handle. A removal first takes the slot from
/// the handle, and then checks for users. So at least one of the two sees the other.
template <class T, HandleKind kind>
class HandleTable {
  struct Slot {
    std::atomic<std::uint64_t> id = 0;  // 0: free, or being removed
    std::atomic<std::uint32_t> users = 0;
    Origin origin;
    std::unique_ptr<T> object;
  };

 public:
  /// An object that can't be removed while the Pin exists.
  class Pin {
   public:
    explicit Pin(Slot& slot) : slot_(&slot) {}
    ~Pin() {
      if (slot_ != nullptr) slot_->users.fetch_sub(1);
    }
    Pin(Pin&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    Pin& operator=(Pin&&) = delete;
    T& operator*() const { return *slot_->object; }
    T* operator->() const { return slot_->object.get(); }
    /// Whether there is no other Pin of the object in this process.
    bool is_only() const { return slot_->users == 1 || !slot_->origin.is_here(); }

   private:
    Slot* slot_;
  };

  /// Never destroyed, because exit handlers may use handles.
  static HandleTable& instance() {
    static auto* table = new HandleTable;
    return *table;
  }

  HandleId insert(std::unique_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) grow();
    const std::uint64_t place = free_.back();
    free_.pop_back();
    Slot& slot = *at(place);
    slot.object = std::move(object);
    if (!slot.origin.is_here())
      slot.users = 0;  // they were threads of the parent, which this child does not have
    slot.origin = Origin();
    const HandleId id = HandleId::make(next_serial++, place, kind);
    slot.id = id.value;
    return id;
  }

  /// Throws Error(invalid_argument) if `id` is no live handle; the error says what it is.
  Pin pin(const char* call, HandleId id) {
    if (Slot* slot = at(id.place())) {
      ++slot->users;
      Pin pin(*slot);
      if (id.value != 0 && slot->id == id.value) return pin;
    }
    refuse(call, id);
  }

  /// Takes the object out, once its last user is done; at once in a child made by fork, which has
  /// no other user. Throws as `pin` does.
  std::unique_ptr<T> remove(const char* call, HandleId id) {
    Slot* slot = at(id.place());
    std::uint64_t expected = id.value;
    if (id.value == 0 || slot == nullptr || !slot->id.compare_exchange_strong(expected, 0))
      refuse(call, id);
    for (Backoff backoff(pace_of_users); slot->users != 0 && slot->origin.is_here();)
      backoff.pause();
    std::unique_ptr<T> object = std::move(slot->object);
    const std::scoped_lock lock(mutex_);
    free_.push_back(id.place());
    return object;
  }

 private:
  static constexpr std::uint64_t chunk = 256;  // slots made at a time; they never move

  Slot* at(std::uint64_t place) const {
    Slot* slots = chunks_[place / chunk];
    return slots == nullptr ? nullptr : slots + place % chunk;
  }

  void grow() {
    if (made_ == HandleId::most_places)
      throw Error(ErrorCode::unsupported, fmt::format("more than {} {}s live at once",
                                                      HandleId::most_places, name_of(kind)));
    free_.reserve(made_ + chunk);  // so that a removal does not allocate
    chunks_[made_ / chunk] = new Slot[chunk];
    for (std::uint64_t place = made_ + chunk; place > made_; --place) free_.push_back(place - 1);
    made_ += chunk;
  }

  [[noreturn]] static void refuse(const char* call, HandleId id) {
    const auto error = [&](const std::string& why) {
      return Error(ErrorCode::invalid_argument, fmt::format("{}: {}", call, why));
    };
    if (id.value == 0) throw error(fmt::format("the {} is NULL", name_of(kind)));
    const bool was_given = id.serial() != 0 && id.serial() < next_serial;
    if (was_given && id.kind() == static_cast<std::uint64_t>(kind))
      throw error(fmt::format("{} {:#x} has been destroyed", name_of(kind), id.value));
    for (const HandleKind other : {HandleKind::communicator, HandleKind::buffer,
                                   HandleKind::nccl_communicator, HandleKind::nccl_window})
      if (was_given && id.kind() == static_cast<std::uint64_t>(other))
        throw error(
            fmt::format("{:#x} is a {}, not a {}", id.value, name_of(other), name_of(kind)));
    throw error(fmt::format("{:#x} is no {}", id.value, name_of(kind)));
  }

  std::array<std::atomic<Slot*>, HandleId::most_places / chunk> chunks_{};
  std::mutex mutex_;  // guards the members below
  std::vector<std::uint64_t> free_;
  std::uint64_t made_ = 0;
};

}  // namespace plait
