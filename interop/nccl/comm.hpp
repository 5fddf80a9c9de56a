// A communicator as NCCL knows it: it may still be in the making, and has a handle until it is
// destroyed.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "core/handle_table.hpp"
#include "core/process.hpp"
#include "interop/nccl/abi.hpp"
#include "plait/communicator.hpp"
#include "plait/unique_id.hpp"

namespace plait {

// The library's own, for programs of the same version.
Backend& backend_of(const Communicator& comm);
class Selector;
const Selector& selector_of(const Communicator& comm);
void refuse_group(const std::string& why) noexcept;
void cancel_group() noexcept;

namespace nccl {

/// An operation of ncclRedOpCreatePreMulSum.
struct PreMulSum {
  DataType type;
  std::uint64_t bits;  // the factor's, in the lowest bytes, unless it is in memory
  const void* from;    // device memory that is read when a call runs; null: `bits` count
};

/// One rank's communicator, and what NCCL wants to know of it before, while and after it is usable.
/// Any thread may call any method, except where another rule is stated.
class Comm {
 public:
  enum class Phase {
    making,  // a job makes the communicator
    ready,
    busy,       // a job divides or finishes the communicator
    failed,     // it could not be made
    finalized,  // ncclCommFinalize has ended
  };

  explicit Comm(bool waits) : blocking(waits) {}
  ~Comm() { close(); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  const bool blocking;  // calls that change the communicator wait for their end

  /// The communicator, for a call that uses it. Waits while a job has it that no thread waits for.
  /// Throws Error(invalid_argument) if another thread waits for the job, or if the communicator is
  /// not there yet, or not any more.
  Communicator& use(const char* call) {
    if (phase_.load(std::memory_order_acquire) != Phase::ready) await_use(call);
    return *communicator_;
  }
  /// The same for a getter that works in all phases but `making` and `failed`.
  Communicator& look(const char* call);
  /// On the host target, where calls on the null stream end before they return. Only after `use`.
  bool is_on_host() const noexcept { return on_host_; }

  /// In the job that makes the communicator.
  void make(const std::function<Communicator()>& make);
  /// Runs `body`, and brings the phase from `busy` to `after`, or back to `ready` if it throws.
  /// `take` came before.
  void occupy(const std::function<void(Communicator&)>& body, Phase after = Phase::ready);
  /// Takes the communicator for a job: throws as `use` does. `waits`: a thread waits for the job,
  /// so that it is inside a call.
  void take(const char* call, bool waits);
  /// The communicator is not made, because of the error. Does nothing once it is.
  void give_up(const Error& error);

  /// What ncclCommGetAsyncError says. Keeps the error's sentence.
  Result state();
  /// The sentence of this communicator's error; empty if it has none.
  std::string sentence();
  /// Ends all calls under way, and the making if that is under way.
  void abort(const char* reason);
  /// Throws Error(invalid_argument) if another thread is inside a call, which may be stuck.
  void refuse_if_inside(const char* call);
  /// True for the first caller, which then has to end the communicator. Only `abort` and `state`
  /// are for other threads from then on, so a thread that waits for stuck calls can be helped.
  bool begin_end() noexcept { return !is_ending_.exchange(true); }
  /// False once it has been aborted: then the stuck calls end, and so does the communicator.
  bool take_back_end();
  bool is_ending() const noexcept { return is_ending_; }
  /// Waits for the calls under way, and for the ends of the groups that have calls.
  void await_calls() noexcept;
  /// Throws Error(aborted) if `abort` was called.
  void throw_if_aborted() const;
  bool is_being_made() const noexcept { return phase_ == Phase::making; }
  /// As `await_calls`, and frees everything. Only for the last user.
  void close() noexcept;

  /// The communicator, for a group that has a call of it. The end of the communicator, perhaps in
  /// another thread, waits until the result is gone.
  static std::shared_ptr<Comm> in_group(const std::shared_ptr<Comm>& comm) {
    ++comm->groups_;
    return {comm.get(), [comm](Comm* own) {
              if (--own->groups_ == 0) own->notify();
            }};
  }

  /// Ids for a communicator of some of the ranks, one by each rank, for ncclCommShrink: the others
  /// may be gone by then. Empty for few ranks. Written by the job that makes the communicator.
  std::vector<UniqueId> spares{};
  std::atomic<bool> was_shrunk = false, own_spare_is_used = false;

  /// A window of the communicator, until `drop` or its end. `drop` waits for the device.
  void keep(std::shared_ptr<Window> window);
  void drop(const std::weak_ptr<Window>& window);

  // Operations of ncclRedOpCreatePreMulSum.
  OpNumber add(const PreMulSum& op);
  bool remove(OpNumber op);
  std::optional<PreMulSum> find(OpNumber op);

  /// Device memory that one call on `stream` has to itself, from `lend` until `event`; null: until
  /// the communicator ends. Later calls get it again.
  void* lend(Backend& backend, std::size_t bytes, NativeStream stream, bool is_captured);
  void retire(void* memory, std::size_t bytes, std::unique_ptr<DeviceEvent> event);

 private:
  void await_use(const char* call);
  bool is_busy_for_a_thread() const { return phase_ == Phase::busy && is_waited_for_; }
  void notify();
  void free_retired() noexcept;

  std::atomic<Phase> phase_ = Phase::making;
  std::atomic<bool> aborted_ = false, is_ending_ = false;
  const Origin origin_{};
  std::atomic<int> groups_ = 0;  // calls in groups that have not ended
  bool on_host_ = false;
  std::mutex mutex_;            // guards all below, and changes of the phase
  bool is_waited_for_ = false;  // by a thread, while `busy`
  std::condition_variable changed_;
  std::optional<Communicator> communicator_;
  std::optional<Error> error_;
  std::vector<std::shared_ptr<Window>> windows_;
  std::map<OpNumber, PreMulSum> ops_;
  struct Retired {
    void* memory;
    std::size_t bytes;
    std::unique_ptr<DeviceEvent> event;
  };
  std::mutex retired_mutex_;  // held where memory is freed, which `abort` must not wait for
  std::vector<Retired> retired_;
};

/// The job of a communicator keeps it alive, so that its handle may be destroyed meanwhile.
using Comms = HandleTable<std::shared_ptr<Comm>, HandleKind::nccl_communicator>;

[[noreturn]] void refuse_ending(const char* call);

inline HandleId id_of(CommHandle handle) { return {reinterpret_cast<std::uintptr_t>(handle)}; }
inline CommHandle handle_of(HandleId id) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in disguise
  return reinterpret_cast<CommHandle>(static_cast<std::uintptr_t>(id.value));
}
inline CommHandle give(const std::shared_ptr<Comm>& comm) {
  return handle_of(Comms::instance().insert(std::make_unique<std::shared_ptr<Comm>>(comm)));
}
/// For the calls that help a thread which waits in the end of the communicator.
inline Comms::Pin pin_to_the_last(const char* call, CommHandle handle) {
  return Comms::instance().pin(call, id_of(handle));
}
/// A call either sees here that the communicator is ending, or the end sees the call's Pin.
inline Comms::Pin pin(const char* call, CommHandle handle) {
  Comms::Pin pinned = pin_to_the_last(call, handle);
  if ((*pinned)->is_ending()) refuse_ending(call);
  return pinned;
}

}  // namespace nccl
}  // namespace plait
