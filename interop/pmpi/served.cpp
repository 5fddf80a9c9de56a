#include "interop/pmpi/served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/backoff.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "plait/mpi.hpp"

namespace plait::pmpi {

thread_local int Below::depth = 0;

namespace {

/// What is kept for a communicator of MPI: Plait's, or why there is none.
struct Entry {
  MPI_Comm mpi;
  Why why = Why::served;
  std::optional<Communicator> own{};
};

/// All entries, in the order of their births. MPI_Comm_free and MPI_Finalize remove them, not a
/// callback of the attribute: MPI may hold a lock then, and Plait's end calls MPI.
class Entries {
 public:
  static Entries& instance() {
    static auto* const entries = new Entries;  // lives as long as the process: MPI_Finalize is late
    return *entries;
  }

  Entry* find(MPI_Comm comm) {
    // Most calls are for the communicator of the one before.
    thread_local Entry* last = nullptr;
    thread_local std::uint64_t seen = 0;
    const std::uint64_t now = removed_.load(std::memory_order_acquire);
    if (last != nullptr && seen == now && last->mpi == comm) return last;
    void* value = nullptr;
    int found = 0;
    if (PMPI_Comm_get_attr(comm, key(), &value, &found) != MPI_SUCCESS || found == 0)
      return nullptr;
    seen = now;
    return last = static_cast<Entry*>(value);
  }
  Entry* add(std::unique_ptr<Entry> entry) {
    PMPI_Comm_set_attr(entry->mpi, key(), entry.get());
    const std::lock_guard lock(mutex_);
    return all_.emplace_back(std::move(entry)).get();
  }
  std::unique_ptr<Entry> remove(MPI_Comm comm) {
    Entry* const entry = find(comm);
    if (entry == nullptr) return nullptr;
    PMPI_Comm_delete_attr(comm, key());
    const std::lock_guard lock(mutex_);
    removed_.fetch_add(1, std::memory_order_release);
    const auto at = std::find_if(all_.begin(), all_.end(),
                                 [&](const auto& other) { return other.get() == entry; });
    std::unique_ptr<Entry> mine = std::move(*at);
    all_.erase(at);
    return mine;
  }
  std::vector<std::unique_ptr<Entry>> remove_all() {
    const std::lock_guard lock(mutex_);
    removed_.fetch_add(1, std::memory_order_release);
    return std::exchange(all_, {});
  }

 private:
  /// Not copied by MPI_Comm_dup: a duplicate begins with none.
  static int key() {
    static const int made = [] {
      int value = MPI_KEYVAL_INVALID;
      PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &value, nullptr);
      return value;
    }();
    return made;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> all_;
  std::atomic<std::uint64_t> removed_ = 0;
};

bool is_turned_off() {
  const std::optional<std::string> word = environment("PLAIT_PMPI");
  if (!word || *word == "host") return false;
  if (*word == "off") return true;
  static std::once_flag warned;
  std::call_once(warned, [&] {
    log::warn("PLAIT_PMPI={}: expected off or host; MPI serves all calls", *word);
  });
  return true;
}

/// Collective over `comm`.
std::unique_ptr<Entry> make(MPI_Comm comm) {
  auto entry = std::make_unique<Entry>(Entry{comm});
  int inter = 0, size = 0;
  PMPI_Comm_test_inter(comm, &inter);
  PMPI_Comm_size(comm, &size);
  if (inter != 0) entry->why = Why::intercommunicator;
  else if (size == 1) entry->why = Why::one_rank;
  if (entry->why != Why::served) return entry;
  const int off = is_turned_off() ? 1 : 0;
  int off_anywhere = 0;
  PMPI_Allreduce(&off, &off_anywhere, 1, MPI_INT, MPI_MAX, comm);
  if (off_anywhere != 0) {
    entry->why = Why::turned_off;
    return entry;
  }
  entry->own.emplace(make_communicator(comm, {.backend = BackendKind::host}));
  static std::once_flag told;
  std::call_once(told, [&] {
    if (entry->own->rank() == 0)
      log::info("libplait-pmpi: serves collective calls of MPI on communicators of several ranks");
  });
  return entry;
}

/// For MpiProceeds. A probe of a communicator of Plait's own finds nothing, and lets MPI proceed.
MPI_Comm probed() {
  static const MPI_Comm self = [] {
    MPI_Comm comm = MPI_COMM_SELF;
    PMPI_Comm_dup(MPI_COMM_SELF, &comm);
    return comm;
  }();
  return self;
}
void let_mpi_proceed() noexcept {
  int found = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, probed(), &found, MPI_STATUS_IGNORE);
}

thread_local WhileWaiting::Act act_before = nullptr;

int class_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return MPI_ERR_NO_MEM;
  const auto* const own = dynamic_cast<const Error*>(&error);
  if (own == nullptr) return MPI_ERR_INTERN;
  switch (own->code()) {
    case ErrorCode::invalid_argument:
      return MPI_ERR_ARG;
    case ErrorCode::unsupported:
      return MPI_ERR_UNSUPPORTED_OPERATION;
    case ErrorCode::out_of_memory:
      return MPI_ERR_NO_MEM;
    default:
      return MPI_ERR_OTHER;
  }
}

}  // namespace

MpiProceeds::MpiProceeds() noexcept { act_before = WhileWaiting::set(let_mpi_proceed); }
MpiProceeds::~MpiProceeds() { WhileWaiting::set(act_before); }

Communicator* served(MPI_Comm comm, Why& why) {
  Entry* entry = comm == MPI_COMM_NULL ? nullptr : Entries::instance().find(comm);
  if (entry == nullptr) {
    why = Why::intercommunicator;
    if (comm == MPI_COMM_NULL) return nullptr;  // MPI says what is wrong
    const Below below;
    entry = Entries::instance().add(make(comm));
  }
  why = entry->why;
  return entry->own ? &*entry->own : nullptr;
}

void forget(MPI_Comm comm) noexcept {
  if (comm == MPI_COMM_NULL || Below::is_here()) return;
  const Below below;
  Entries::instance().remove(comm);
}
void forget_all() noexcept {
  const Below below;
  auto all = Entries::instance().remove_all();
  while (!all.empty()) all.pop_back();  // the youngest first, as they would be freed
}

int raise(MPI_Comm comm, const std::exception& error) noexcept {
  int code = class_of(error);
  if (PMPI_Add_error_code(code, &code) == MPI_SUCCESS) {
    std::string text = fmt::format("{:.{}}", error.what(), MPI_MAX_ERROR_STRING - 1);
    PMPI_Add_error_string(code, text.data());
  }
  log::error("{}", error.what());
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace plait::pmpi
