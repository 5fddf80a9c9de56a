// A communicator as NCCL knows it: it may still be in the making, and has a handle until it is
// destroyed.
#pragma once
#include <atomic>
#include <condition_variable>
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
#include "interop/nccl/abi.hpp"
#include "plait/communicator.hpp"
#include "plait/unique_id.hpp"

namespace plait {

// The library's own, for programs of the same version.
Backend& backend_of(const Communicator& comm);
class Selector;
const Selector& selector_of(const Communicator& comm);

namespace nccl {

/// An operation of ncclRedOpCreatePreMulSum.
struct PreMulSum {
  DataType type;
  double factor;     // unless it is read from memory
  const void* from;  // device memory that is read when a call is made; null: `factor` counts
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

  /// The communicator, for a call that uses it. Waits while a job has it. Throws
  /// Error(invalid_argument) if it is not there yet, or not any more.
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
  /// Takes the communicator for a job: throws as `use` does.
  void take(const char* call);
  /// The communicator is not made, because of the error. Does nothing once it is.
  void give_up(const Error& error);

  /// What ncclCommGetAsyncError says. Keeps the error's sentence.
  Result state();
  /// The sentence of this communicator's error; empty if it has none.
  std::string sentence();
  /// Ends all calls under way, and the making if that is under way.
  void abort(const char* reason);
  /// Throws Error(aborted) if `abort` was called.
  void throw_if_aborted() const;
  bool is_being_made() const noexcept { return phase_ == Phase::making; }
  /// Waits for the calls under way, and for the ends of the groups that have calls, and frees
  /// everything. Only for the last user.
  void close() noexcept;

  /// A group that has a call of this communicator. The group may be another thread's than the one
  /// that ends the communicator.
  class InGroup {
   public:
    explicit InGroup(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) { ++comm_->groups_; }
    ~InGroup() {
      if (comm_ != nullptr && --comm_->groups_ == 0) comm_->notify();
    }
    InGroup(InGroup&&) noexcept = default;
    InGroup(const InGroup&) = delete;
    InGroup& operator=(const InGroup&) = delete;
    InGroup& operator=(InGroup&&) = delete;
    Comm& operator*() const { return *comm_; }
    Comm* operator->() const { return comm_.get(); }

   private:
    std::shared_ptr<Comm> comm_;
  };

  /// Ids for a communicator of some of the ranks, one by each rank, for ncclCommShrink: the others
  /// may be gone by then. Empty for few ranks. Written by the job that makes the communicator.
  std::vector<UniqueId> spares{};
  std::atomic<bool> was_shrunk = false, own_spare_is_used = false;

  // Operations of ncclRedOpCreatePreMulSum.
  OpNumber add(const PreMulSum& op);
  bool remove(OpNumber op);
  std::optional<PreMulSum> find(OpNumber op);

  /// Memory that a call uses on the stream until `event`.
  void retire(void* memory, std::unique_ptr<DeviceEvent> event);

 private:
  void await_use(const char* call);
  void notify();
  void free_retired(bool all) noexcept;

  std::atomic<Phase> phase_ = Phase::making;
  std::atomic<bool> aborted_ = false;
  std::atomic<int> groups_ = 0;  // calls in groups that have not ended
  bool on_host_ = false;
  std::mutex mutex_;  // guards all below, and changes of the phase
  std::condition_variable changed_;
  std::optional<Communicator> communicator_;
  std::optional<Error> error_;
  std::map<OpNumber, PreMulSum> ops_;
  struct Retired {
    void* memory;
    std::unique_ptr<DeviceEvent> event;
  };
  std::vector<Retired> retired_;
};

/// The job of a communicator keeps it alive, so that its handle may be destroyed meanwhile.
using Comms = HandleTable<std::shared_ptr<Comm>, HandleKind::nccl_communicator>;

inline HandleId id_of(CommHandle handle) { return {reinterpret_cast<std::uintptr_t>(handle)}; }
inline CommHandle handle_of(HandleId id) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in disguise
  return reinterpret_cast<CommHandle>(static_cast<std::uintptr_t>(id.value));
}
inline CommHandle give(const std::shared_ptr<Comm>& comm) {
  return handle_of(Comms::instance().insert(std::make_unique<std::shared_ptr<Comm>>(comm)));
}
inline Comms::Pin pin(const char* call, CommHandle handle) {
  return Comms::instance().pin(call, id_of(handle));
}

}  // namespace nccl
}  // namespace plait
