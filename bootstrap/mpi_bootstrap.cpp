// Ranks that are processes of an MPI job. Every collective is made of point-to-point messages between all pairs, so that a rank that does
// not arrive is known by name (MPI's own collectives can't tell), sizes are not bound by `int`, and ranks that disagree are noticed.
// The messages are few and small, and this is how OpenMPI's MPI_Iallgather works too.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "bootstrap/support.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr std::size_t largest_message = std::size_t{64} << 20;  // keeps the staging buffers moderate; far below INT_MAX
constexpr int tag = 0;                                          // messages between two ranks keep their order

std::string describe(int status) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int status, const char* call, int rank) {
  if (status != MPI_SUCCESS) throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: {}", call, rank, describe(status)));
}

bool is_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

/// One message under way.
struct Message {
  MPI_Request request = MPI_REQUEST_NULL;
  int peer = 0;
  bool incoming = false;
};

/// Messages under way and the memory that MPI reads and writes for them: never the caller's, which is gone after a timeout.
struct Flight {
  std::vector<std::byte> sent, received;
  std::vector<Message> messages;       // not finished yet
  MPI_Comm duplicate = MPI_COMM_NULL;  // written by MPI_Comm_idup
};

/// What a failed call left under way. MPI may still write to that memory, so it is kept.
class Abandoned {
 public:
  static Abandoned& instance() {
    static auto* abandoned = new Abandoned;  // never destroyed: needed by an exit handler
    return *abandoned;
  }
  void keep(Flight* flight) {
    const std::scoped_lock lock(mutex_);
    flights_.emplace_back(flight);
  }
  /// A rank will never come.
  void lose_rank() { rank_lost_ = true; }
  /// Whether the ranks that were given up have arrived after all.
  bool finished() {
    const std::scoped_lock lock(mutex_);
    if (rank_lost_) return false;
    for (const auto& flight : flights_) {
      for (Message& message : flight->messages) {
        int done = 0;
        if (MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) return false;
      }
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::atomic<bool> rank_lost_ = false;
};

struct Land {
  void operator()(Flight* flight) const {
    if (flight->messages.empty()) return delete flight;
    Abandoned::instance().keep(flight);
  }
};
using FlightPointer = std::unique_ptr<Flight, Land>;

/// Bootstraps that exist.
class Open {
 public:
  static Open& instance() {
    static auto* open = new Open;  // never destroyed: needed by an exit handler
    return *open;
  }
  void add(Bootstrap* bootstrap) {
    const std::scoped_lock lock(mutex_);
    bootstraps_.insert(bootstrap);
  }
  void remove(Bootstrap* bootstrap) {
    const std::scoped_lock lock(mutex_);
    bootstraps_.erase(bootstrap);
  }
  void say_farewell() {
    const std::scoped_lock lock(mutex_);
    for (const Bootstrap* bootstrap : bootstraps_) bootstrap->say_farewell();
  }

 private:
  std::mutex mutex_;
  std::set<Bootstrap*> bootstraps_;
};

/// MPI is the process's that initialised it.
class Initialized {
 public:
  /// Throws in a child that was forked from a process that had.
  static void require_not_inherited(const char* call) {
    if (!in_parent) return;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: this process was forked from one that uses MPI, and a child can't: exec, or fork before MPI is initialised",
                    call));
  }

 private:
  static inline std::atomic<bool> in_parent = false;
  static inline const int at_fork = pthread_atfork(nullptr, nullptr, [] {
    int flag = 0;
    MPI_Initialized(&flag);
    if (flag != 0) in_parent = true;
  });
};

void finalize_at_exit(const Origin& initialized) {
  if (!initialized.is_exactly_here() || is_finalized()) return;
  Open::instance().say_farewell();  // also if MPI is not finalised: then the process may take a while to end
  // MPI_Finalize waits for all ranks, so with a rank missing it would hang. Without it mpirun sees a failed process and ends the job.
  if (Abandoned::instance().finished()) MPI_Finalize();
}

void initialize_mpi() {
  Initialized::require_not_inherited("make_mpi_bootstrap");
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (is_finalized()) throw Error(ErrorCode::bootstrap, "make_mpi_bootstrap: MPI is already finalised in this process");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = 0;
  const int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (status != MPI_SUCCESS) throw Error(ErrorCode::bootstrap, fmt::format("make_mpi_bootstrap: MPI_Init_thread: {}", describe(status)));
  static const Origin here;
  std::atexit([] { finalize_at_exit(here); });
}

class MpiBootstrap final : public Bootstrap {
 public:
  /// Over a copy of `comm`.
  static std::unique_ptr<MpiBootstrap> duplicate(MPI_Comm comm);
  /// Takes `comm` over.
  MpiBootstrap(MPI_Comm comm, std::chrono::nanoseconds timeout);
  ~MpiBootstrap() override {
    if (!origin_.is_here()) return;
    Open::instance().remove(this);
    if (is_finalized()) return;
    if (failure_.empty()) MPI_Comm_free(&comm_);  // collective, so not after a failure: it may wait for a missing rank
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  using Bootstrap::all_gather;
  using Bootstrap::broadcast;
  void all_gather(const void* in, void* out, std::size_t bytes) override { gather("Bootstrap::all_gather", in, out, bytes); }
  void broadcast(void* data, std::size_t bytes, int root) override;
  void barrier() override {
    require_usable("Bootstrap::barrier");
    gather_part("Bootstrap::barrier", nullptr, nullptr, 0, 0);
  }
  std::unique_ptr<Bootstrap> split(int color, int key) override;
  void abandon(const std::string& why, bool rank_lost) noexcept override {
    failure_ = why;
    if (rank_lost) Abandoned::instance().lose_rank();
  }

 private:
  void require_usable(const char* call);
  void gather(const char* call, const void* in, void* out, std::size_t bytes);
  /// Parts of a call with at most `largest_message` bytes.
  void gather_part(const char* call, const std::byte* in, std::byte* out, std::size_t bytes, std::size_t stride);
  void broadcast_part(std::byte* data, std::size_t bytes, int root);

  void send(const char* call, Flight& flight, int peer);
  void receive(const char* call, Flight& flight, int peer, std::byte* place, std::size_t bytes);
  /// Waits for all messages; the incoming ones have `bytes` bytes each.
  void complete(const char* call, Flight& flight, std::size_t bytes);
  /// Whether the call is interrupted. Leaves nothing of `flight` to be received behind, so that MPI can be finalised.
  void look(Flight* flight = nullptr);
  /// Takes finished messages off the list. Throws if something is wrong with one.
  void advance(const char* call, Flight& flight, std::size_t bytes);
  std::optional<Error> examine(const char* call, const Message& message, int result, const MPI_Status& status, std::size_t bytes) const;
  [[noreturn]] void fail(ErrorCode code, const std::string& message) {
    failure_ = message;
    throw Error(code, message);
  }

  Origin origin_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::string failure_;  // the first one: after it the ranks may be in different calls
};

std::unique_ptr<MpiBootstrap> MpiBootstrap::duplicate(MPI_Comm comm) {
  constexpr const char* call = "make_mpi_bootstrap";
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), call, rank);
  const std::chrono::minutes limit{10};  // as Bootstrap's default
  const detail::Deadline deadline(limit);
  detail::Backoff backoff;
  const FlightPointer flight(new Flight);
  MPI_Request& request = flight->messages.emplace_back().request;
  check(MPI_Comm_idup(comm, &flight->duplicate, &request), call, rank);
  for (int done = 0;; backoff.pause()) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call, rank);
    if (done != 0) break;
    if (!deadline.expired()) continue;
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {} waited {} for the other ranks in MPI_Comm_idup", call, rank, detail::in_seconds(limit)));
  }
  flight->messages.clear();
  return std::make_unique<MpiBootstrap>(flight->duplicate, limit);
}

MpiBootstrap::MpiBootstrap(MPI_Comm comm, std::chrono::nanoseconds timeout) : comm_(comm) {
  set_timeout(timeout);
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", rank_);
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank", rank_);
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size", rank_);
  discover_nodes();
  Open::instance().add(this);
}

void MpiBootstrap::require_usable(const char* call) {
  origin_.require(call, "bootstrap");
  if (is_finalized()) throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: MPI is already finalised", call, rank_));
  look();
  if (!failure_.empty()) throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: an earlier call failed: {}", call, rank_, failure_));
}

void MpiBootstrap::send(const char* call, Flight& flight, int peer) {
  MPI_Request& request = flight.messages.emplace_back(Message{MPI_REQUEST_NULL, peer, false}).request;
  const int size = static_cast<int>(flight.sent.size());
  const int result = MPI_Isend(flight.sent.data(), size, MPI_BYTE, peer, tag, comm_, &request);
  if (result != MPI_SUCCESS) fail(ErrorCode::bootstrap, fmt::format("{}: rank {} to rank {}: {}", call, rank_, peer, describe(result)));
}

void MpiBootstrap::receive(const char* call, Flight& flight, int peer, std::byte* place, std::size_t bytes) {
  MPI_Request& request = flight.messages.emplace_back(Message{MPI_REQUEST_NULL, peer, true}).request;
  const int result = MPI_Irecv(place, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &request);
  if (result != MPI_SUCCESS) fail(ErrorCode::bootstrap, fmt::format("{}: rank {} from rank {}: {}", call, rank_, peer, describe(result)));
}

/// What is wrong with a finished message.
std::optional<Error> MpiBootstrap::examine(const char* call, const Message& message, int result, const MPI_Status& status,
                                           std::size_t bytes) const {
  int kind = MPI_SUCCESS, received = 0;
  MPI_Error_class(result, &kind);
  if (kind == MPI_ERR_TRUNCATE) {
    return Error(ErrorCode::mismatch, fmt::format("{}: rank {} passed {} bytes, rank {} more", call, rank_, bytes, message.peer));
  }
  if (kind != MPI_SUCCESS) {
    return Error(ErrorCode::bootstrap, fmt::format("{}: rank {} with rank {}: {}", call, rank_, message.peer, describe(result)));
  }
  if (!message.incoming) return {};
  MPI_Get_count(&status, MPI_BYTE, &received);
  if (static_cast<std::size_t>(received) == bytes) return {};
  return Error(ErrorCode::mismatch, fmt::format("{}: rank {} passed {} bytes, rank {} {}", call, rank_, bytes, message.peer, received));
}

void MpiBootstrap::advance(const char* call, Flight& flight, std::size_t bytes) {
  std::optional<Error> error;
  std::erase_if(flight.messages, [&](Message& message) {
    int done = 0;
    MPI_Status status{};
    const int result = MPI_Test(&message.request, &done, &status);
    if (result == MPI_SUCCESS && done == 0) return false;
    if (!error) error = examine(call, message, result, status, bytes);
    return true;
  });
  if (error) fail(error->code(), error->what());
}

void MpiBootstrap::look(Flight* flight) {
  try {
    throw_if_interrupted();
  } catch (const std::exception& error) {
    if (failure_.empty()) failure_ = error.what();
    if (flight != nullptr)
      std::erase_if(flight->messages, [](Message& message) {
        return message.incoming && MPI_Cancel(&message.request) == MPI_SUCCESS &&
               MPI_Wait(&message.request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
      });
    throw;
  }
}

void MpiBootstrap::complete(const char* call, Flight& flight, std::size_t bytes) {
  const detail::Deadline deadline(timeout());
  detail::Backoff backoff;
  auto looked = std::chrono::steady_clock::now();
  for (advance(call, flight, bytes); !flight.messages.empty(); advance(call, flight, bytes)) {
    if (const auto now = std::chrono::steady_clock::now(); now - looked >= detail::interrupt_period) {
      look(&flight);
      looked = now;
    }
    if (deadline.expired()) {
      std::set<int> missing;
      for (const Message& message : flight.messages) missing.insert(message.peer);
      fail(ErrorCode::bootstrap, fmt::format("{}: rank {} waited {} in vain for {}", call, rank_, detail::in_seconds(timeout()),
                                             detail::list_ranks({missing.begin(), missing.end()})));
    }
    backoff.pause();
  }
}

void MpiBootstrap::gather_part(const char* call, const std::byte* in, std::byte* out, std::size_t bytes, std::size_t stride) {
  const FlightPointer flight(new Flight);
  flight->sent.assign(in, in + bytes);
  flight->received.resize(bytes * static_cast<std::size_t>(size_));
  const auto part_of = [&](int rank) { return flight->received.data() + bytes * static_cast<std::size_t>(rank); };
  for (int step = 1; step < size_; ++step) {
    const int source = (rank_ - step + size_) % size_;
    receive(call, *flight, source, part_of(source), bytes);
  }
  for (int step = 1; step < size_; ++step) send(call, *flight, (rank_ + step) % size_);
  complete(call, *flight, bytes);
  if (bytes == 0) return;
  std::memcpy(part_of(rank_), flight->sent.data(), bytes);
  for (int rank = 0; rank < size_; ++rank) std::memcpy(out + stride * static_cast<std::size_t>(rank), part_of(rank), bytes);
}

void MpiBootstrap::broadcast_part(std::byte* data, std::size_t bytes, int root) {
  constexpr const char* call = "Bootstrap::broadcast";
  const FlightPointer flight(new Flight);
  if (rank_ == root) {
    flight->sent.assign(data, data + bytes);
    for (int step = 1; step < size_; ++step) send(call, *flight, (root + step) % size_);
    complete(call, *flight, bytes);
  } else {
    flight->received.resize(bytes);
    receive(call, *flight, root, flight->received.data(), bytes);
    complete(call, *flight, bytes);
    if (bytes > 0) std::memcpy(data, flight->received.data(), bytes);
  }
}

void MpiBootstrap::gather(const char* call, const void* in, void* out, std::size_t bytes) {
  detail::check_all_gather(rank_, size_, in, out, bytes);
  require_usable(call);
  // The input may lie in the output, at this rank's place: a part is only overwritten when it has been sent.
  std::size_t begin = 0;
  do {
    const std::size_t part = std::min(bytes - begin, largest_message / static_cast<std::size_t>(size_));
    gather_part(call, static_cast<const std::byte*>(in) + begin, static_cast<std::byte*>(out) + begin, part, bytes);
    begin += part;
  } while (begin < bytes);
}

void MpiBootstrap::broadcast(void* data, std::size_t bytes, int root) {
  detail::check_broadcast(rank_, size_, data, bytes, root);
  require_usable("Bootstrap::broadcast");
  std::size_t begin = 0;
  do {
    const std::size_t part = std::min(bytes - begin, largest_message);
    broadcast_part(static_cast<std::byte*>(data) + begin, part, root);
    begin += part;
  } while (begin < bytes);
}

std::unique_ptr<Bootstrap> MpiBootstrap::split(int color, int key) {
  // MPI_Comm_split can't be given a deadline, so it is only entered when all ranks are known to be here; and it takes no negative
  // colors, so the first rank of a color stands for it.
  constexpr const char* call = "Bootstrap::split";
  const detail::SplitKey mine{color, key};
  std::vector<detail::SplitKey> keys(static_cast<std::size_t>(size_));
  gather(call, &mine, keys.data(), sizeof mine);
  const std::vector<int> members = detail::split_members(keys, rank_);
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, *std::min_element(members.begin(), members.end()), key, &part), call, rank_);
  return std::make_unique<MpiBootstrap>(part, timeout());
}

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap(MPI_Comm comm) {
  initialize_mpi();
  if (comm == MPI_COMM_NULL) throw Error(ErrorCode::invalid_argument, "make_mpi_bootstrap: the communicator is MPI_COMM_NULL");
  // What nobody has set, or Open MPI makes of an integer of Fortran's that it does not know. MPI would end the program.
  if (comm == MPI_Comm{}) throw Error(ErrorCode::invalid_argument, "make_mpi_bootstrap: the communicator is none of MPI's");
  int inter = 0;
  check(MPI_Comm_test_inter(comm, &inter), "make_mpi_bootstrap", 0);
  if (inter != 0) {
    throw Error(ErrorCode::invalid_argument, "make_mpi_bootstrap: the communicator is an inter-communicator; merge it first");
  }
  return MpiBootstrap::duplicate(comm);
}

}  // namespace plait
