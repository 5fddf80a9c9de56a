#include "interop/pmpi/served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backoff.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "interop/pmpi/requests.hpp"
#include "plait/mpi.hpp"

namespace plait::pmpi {

constinit thread_local int Below::depth = 0;

namespace {

/// All of them, in the order of their births. MPI_Comm_free and MPI_Finalize remove them, not a
/// callback of the attribute: MPI may hold a lock then, and Plait's end calls MPI.
class Entries {
 public:
  static Entries& instance() {
    static auto* const entries = new Entries;  // lives as long as the process: MPI_Finalize is late
    return *entries;
  }

  Served* find(MPI_Comm comm) {
    // Most calls are for the communicator of the one before.
    thread_local Served* last = nullptr;
    thread_local std::uint64_t seen = 0;
    const std::uint64_t now = removed_.load(std::memory_order_acquire);
    if (last != nullptr && seen == now && last->mpi == comm) return last;
    void* value = nullptr;
    int found = 0;
    if (PMPI_Comm_get_attr(comm, key(), &value, &found) != MPI_SUCCESS || found == 0)
      return nullptr;
    seen = now;
    return last = static_cast<Served*>(value);
  }
  Served* add(std::unique_ptr<Served> served) {
    PMPI_Comm_set_attr(served->mpi, key(), served.get());
    const std::lock_guard lock(mutex_);
    return all_.emplace_back(std::move(served)).get();
  }
  std::unique_ptr<Served> remove(MPI_Comm comm) {
    Served* const served = find(comm);
    if (served == nullptr) return nullptr;
    PMPI_Comm_delete_attr(comm, key());
    const std::lock_guard lock(mutex_);
    removed_.fetch_add(1, std::memory_order_release);
    const auto at = std::find_if(all_.begin(), all_.end(),
                                 [&](const auto& other) { return other.get() == served; });
    std::unique_ptr<Served> mine = std::move(*at);
    all_.erase(at);
    return mine;
  }
  std::vector<std::unique_ptr<Served>> remove_all() {
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
  std::vector<std::unique_ptr<Served>> all_;
  std::atomic<std::uint64_t> removed_ = 0;
};

/// What one MPI's headers call a handle is something else in another MPI, so nothing may be passed
/// on to it. The names of MPI's functions are those of the program's MPI here.
[[gnu::constructor]] void refuse_other_mpi() {
  std::array<char, 16384> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  bool fits = std::string_view(text.data()).starts_with("Open MPI");
#ifndef OPEN_MPI
  fits = !fits;
#endif
#if MPI_VERSION >= 5
  int major = -1, minor = -1;
  PMPI_Abi_get_version(&major, &minor);
#ifdef MPI_ABI
  fits = fits && major >= 1;
#else
  fits = fits && major < 1;
#endif
#endif
  if (fits) return;
  std::fprintf(stderr, "libplait-pmpi was built for another MPI than this program's, which is %s\n",
               text.data());
  std::_Exit(1);
}

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

/// A receive that no message comes to. Asking for its state lets MPI proceed. A probe would not in
/// MPICH, where ranks that send to themselves need no progress.
class NeverReceived {
 public:
  static MPI_Request request() {
    static const MPI_Request request = [] {
      NeverReceived& own = instance();
      PMPI_Comm_dup(MPI_COMM_SELF, &own.comm_);
      PMPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, own.comm_, &own.request_);
      return own.request_;
    }();
    return request;
  }
  /// Before MPI ends.
  static void end() noexcept {
    NeverReceived& own = instance();
    if (own.request_ == MPI_REQUEST_NULL) return;
    PMPI_Cancel(&own.request_);
    PMPI_Wait(&own.request_, MPI_STATUS_IGNORE);
    PMPI_Comm_free(&own.comm_);
  }

 private:
  static NeverReceived& instance() {
    static NeverReceived own;
    return own;
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

constinit thread_local WhileWaiting::Act act_before = nullptr;

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
#ifdef MPI_ERR_PROC_ABORTED  // MPI 4
    case ErrorCode::rank_lost:
      return MPI_ERR_PROC_ABORTED;
#endif
    default:
      return MPI_ERR_OTHER;
  }
}

/// MPI keeps each code that a program makes, so equal sentences share one, and there is an end.
int code_of(int error_class, const char* what) {
  constexpr std::size_t most = 100;
  static std::mutex mutex;
  static std::map<std::string, int> codes;
  const std::lock_guard lock(mutex);
  std::string text = fmt::format("{:.{}}", what, MPI_MAX_ERROR_STRING - 1);
  if (const auto found = codes.find(text); found != codes.end()) return found->second;
  int code = error_class;
  if (codes.size() == most || PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS)
    return error_class;
  PMPI_Add_error_string(code, text.data());
  return codes.emplace(std::move(text), code).first->second;
}

}  // namespace

void let_mpi_proceed() noexcept {
  int received = 0;
  PMPI_Request_get_status(NeverReceived::request(), &received, MPI_STATUS_IGNORE);
}
MpiProceeds::MpiProceeds() noexcept { act_before = WhileWaiting::set(let_mpi_proceed); }
MpiProceeds::~MpiProceeds() { WhileWaiting::set(act_before); }

Served* Served::of(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return nullptr;
  Served* const found = Entries::instance().find(comm);
  return found != nullptr ? found : Entries::instance().add(std::make_unique<Served>(comm));
}

/// Collective.
void Served::decide() {
  int inter = 0, size = 0, off = is_turned_off() ? 1 : 0, off_anywhere = 0;
  PMPI_Comm_test_inter(mpi, &inter);
  PMPI_Comm_size(mpi, &size);
  if (inter != 0) decided_ = Why::intercommunicator;
  else if (size == 1) decided_ = Why::one_rank;
  if (decided_) return;
  PMPI_Allreduce(&off, &off_anywhere, 1, MPI_INT, MPI_MAX, mpi);
  decided_ = off_anywhere != 0 ? Why::turned_off : Why::served;
}

/// Collective.
void Served::make(std::optional<Communicator>& own) const {
  CommunicatorOptions options{.backend = BackendKind::host};
  // MPI's calls have no deadline. A rank that ends is noticed all the same.
  if (!environment("PLAIT_TIMEOUT")) options.timeout = std::chrono::nanoseconds(0);
  own.emplace(make_communicator(mpi, options));
  static std::once_flag told;
  std::call_once(told, [&] {
    if (own->rank() == 0)
      log::info("libplait-pmpi: serves collective calls of MPI on communicators of several ranks");
  });
}

Communicator* Served::communicator(Form form, Why& why) {
  const bool has_all = form == Form::blocking ? blocking && (later || !wants_later_) : !!later;
  if (!has_all) {
    const Below below;
    if (form == Form::nonblocking) wants_later_ = true;
    else if (!decided_) decide();
    why = decided_.value_or(Why::no_communicator);
    if (form == Form::nonblocking && why == Why::served) why = Why::no_communicator;
    if (why != Why::served) return nullptr;
    if (form == Form::blocking && !blocking) make(blocking);
    if ((form == Form::persistent || wants_later_) && !later) make(later);
  }
  return form == Form::blocking ? &*blocking : &*later;
}

Event Served::take_event() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return later->create_event();
  Event event = std::move(events_.back());
  events_.pop_back();
  return event;
}
void Served::give_event(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

void Served::forget(MPI_Comm comm) noexcept {
  if (comm == MPI_COMM_NULL || Below::is_here()) return;
  const Below below;
  const MpiProceeds proceeds;
  if (const auto served = Entries::instance().remove(comm)) Requests::instance().settle(*served);
}
void Served::forget_all() noexcept {
  const Below below;
  const MpiProceeds proceeds;
  // The youngest first, as they would be freed.
  for (auto all = Entries::instance().remove_all(); !all.empty(); all.pop_back())
    Requests::instance().settle(*all.back());
  NeverReceived::end();
}

int raise(MPI_Comm comm, const std::exception& error) noexcept {
  const int error_class = class_of(error);
  int code = error_class;
  try {
    code = code_of(error_class, error.what());
    if (code == error_class) log::error("{}", error.what());  // MPI can't say it
  } catch (const std::exception&) {                           // no memory for the sentence
  }
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace plait::pmpi
