#include "bootstrap/mpi/process.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "bootstrap/mpi/link.hpp"
#include "bootstrap/mpi/support.hpp"
#include "core/process.hpp"
#include "core/signal_mask.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::detail {

/// The objects of BeforeMpiEnds.
class EndOfMpi {
 public:
  static EndOfMpi& instance() {
    static auto* end = new EndOfMpi;  // never destroyed: needed by an exit handler
    return *end;
  }
  void add(BeforeMpiEnds* object) {
    const std::scoped_lock lock(mutex_);
    if (!is_attached_) attach();
    is_attached_ = true;
    objects_.push_back(object);
  }
  void remove(BeforeMpiEnds* object) {
    const std::scoped_lock lock(mutex_);
    std::erase(objects_, object);
  }
  void run() {
    const std::scoped_lock lock(mutex_);
    for (; !objects_.empty(); objects_.pop_back()) objects_.back()->end_();
  }

 private:
  /// MPI_Finalize first deletes the attributes of MPI_COMM_SELF, and this one's delete function may
  /// use MPI.
  static void attach() {
    const auto on_delete = [](MPI_Comm, int, void*, void*) -> int {
      instance().run();
      return MPI_SUCCESS;
    };
    int key = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, nullptr),
          "MPI_Comm_create_keyval", 0);
    check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr", 0);
  }

  std::mutex mutex_;
  bool is_attached_ = false;
  std::vector<BeforeMpiEnds*> objects_;
};

BeforeMpiEnds::BeforeMpiEnds(std::function<void()> end) : end_(std::move(end)) {
  EndOfMpi::instance().add(this);
}

BeforeMpiEnds::~BeforeMpiEnds() {
  if (origin_.is_here()) EndOfMpi::instance().remove(this);
}

namespace {

/// MPI belongs to the process that initialised it.
class Initialized {
 public:
  /// Throws in a child that was forked from a process that had initialised MPI.
  static void require_not_inherited(const char* call) {
    if (!in_parent) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this process was forked from one that uses MPI, and a child "
                            "can't: exec, or fork before MPI is initialised",
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
  // Even if MPI is not finalised below, because the process may then take a while to end.
  Links::instance().say_farewell();
  EndOfMpi::instance().run();
  // MPI_Finalize waits for all ranks, so it would hang if one is missing. Without it, mpirun sees a
  // failed process and ends the job. Open MPI 5.0.7 sends a last word over TCP to ranks that may
  // have gone.
  const NoSigpipe no_sigpipe;
  if (Links::instance().flush() && nothing_abandoned()) MPI_Finalize();
}

}  // namespace

void initialize_mpi() {
  Initialized::require_not_inherited("make_mpi_bootstrap");
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (is_finalized())
    throw Error(ErrorCode::bootstrap,
                "make_mpi_bootstrap: MPI is already finalised in this process");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  const StandardFdsTaken taken;  // MPI opens sockets
  int provided = 0;
  const int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (status != MPI_SUCCESS)
    throw Error(ErrorCode::bootstrap,
                fmt::format("make_mpi_bootstrap: MPI_Init_thread: {}", describe(status)));
  static const Origin here;
  std::atexit([] { finalize_at_exit(here); });
}

}  // namespace plait::detail
