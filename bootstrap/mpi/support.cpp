#include "bootstrap/mpi/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "bootstrap/support.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

class Abandoned {
 public:
  static Abandoned& instance() {
    static auto* abandoned = new Abandoned;  // never destroyed: needed by an exit handler
    return *abandoned;
  }
  void keep(std::unique_ptr<Flight> flight) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(flights_, [](const auto& other) { return other->is_finished(); });
    flights_.push_back(std::move(flight));
  }
  bool finished() {
    const std::scoped_lock lock(mutex_);
    return std::all_of(flights_.begin(), flights_.end(),
                       [](const auto& flight) { return flight->is_finished(); });
  }
  std::atomic<bool> rank_lost = false;

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Flight>> flights_;
};

}  // namespace

std::string describe(int status) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int status, const char* call, int rank) {
  if (status != MPI_SUCCESS)
    throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: {}", call, rank, describe(status)));
}

bool is_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

bool Flight::is_finished() {
  bool finished = true;
  for (MPI_Request& request : requests) {
    int done = 0;
    if (request != MPI_REQUEST_NULL &&
        MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0)
      finished = false;
  }
  return finished;
}

void abandon(std::unique_ptr<Flight> flight) {
  if (!flight->is_finished()) Abandoned::instance().keep(std::move(flight));
}
void lose_rank() { Abandoned::instance().rank_lost = true; }
bool nothing_abandoned() {
  const Deadline last(std::chrono::milliseconds(500));
  Backoff backoff(bootstrap_pace);
  while (!Abandoned::instance().rank_lost && !last.expired()) {
    if (Abandoned::instance().finished()) return true;
    backoff.pause();
  }
  return false;
}

}  // namespace plait::detail
