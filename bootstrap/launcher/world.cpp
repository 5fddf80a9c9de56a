#include "bootstrap/launcher/world.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "bootstrap/launcher/environment.hpp"
#include "bootstrap/launcher/local_meeting.hpp"
#include "bootstrap/launcher/pmi.hpp"
#include "bootstrap/socket/socket_bootstrap.hpp"
#include "bootstrap/socket/unique_id.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"
#include "plait/unique_id.hpp"

namespace plait {
namespace detail {
namespace {

constexpr const char* call = "make_world_bootstrap";

std::atomic<MpiWorld> mpi_world = nullptr;
std::atomic<bool (*)()> mpi_is_initialized = nullptr;

/// The secret of a job whose ranks are on several nodes and share nothing but the environment. So
/// it is as secret as PLAIT_SOCKET_SECRET.
Secret secret_of(const std::string& job) {
  const std::string text = job + "\n" + environment("PLAIT_SOCKET_SECRET").value_or("");
  const auto half = [&](std::uint64_t value) {
    for (const char letter : text) {
      value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
      value ^= value >> 29;
    }
    Secret::Half bytes{};
    for (std::size_t at = 0; at < bytes.size(); ++at)
      bytes[at] = static_cast<unsigned char>(value >> 8 * at);
    return bytes;
  };
  return {half(0xcbf29ce484222325u), half(0x9e3779b97f4a7c15u)};
}

/// A machine's own name often stands for a loopback address on that machine, and a service's name
/// for none of the machine's: then rank 0 listens at all addresses.
UniqueFd listen_at_place(const Launched& job) {
  const Endpoint own = resolve(job.host, job.port);
  if (!is_loopback(own) && is_own_address(own)) return listen_at(own);
  try {
    return listen_at({.family = Endpoint::Family::ipv6, .port = job.port});
  } catch (const Error&) {  // a system may have no IPv6
    return listen_at({.family = Endpoint::Family::ipv4, .port = job.port});
  }
}

/// Throws if the program that has rank 0's port is another rank 0 of this job, and tells it.
void look_for_twin(const Launched& job, const Secret& secret, const Arrival& mine) {
  constexpr std::chrono::milliseconds patience{300};
  Arrival caller = mine;
  caller.limit = patience;
  caller.deadline = Deadline(patience);
  try {
    meet_with(resolve(job.host, job.port), secret, false, caller);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mismatch) throw;
  }
}

/// Rank 0's listener. Another job has the port until its ranks have met, and a call of another
/// program for a moment.
UniqueFd listen_for(const Launched& job, const Secret& secret, const Arrival& mine) {
  constexpr std::chrono::seconds patience{5};
  bool has_looked = false, has_warned = false;
  for (const Deadline last(patience);;) {
    try {
      return listen_at_place(job);
    } catch (const Error& error) {
      if (mine.deadline.expired())
        throw Error(error.code(), fmt::format("{}: rank 0: {}, for {}: PLAIT_SOCKET_PORT names "
                                              "another port, on all ranks",
                                              call, error.what(), in_seconds(mine.limit)));
      if (last.expired() && !has_warned) log::warn("{}: rank 0 waits: {}", call, error.what());
      has_warned = last.expired();
    }
    if (!std::exchange(has_looked, true)) look_for_twin(job, secret, mine);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Where rank 0 listens. A name may not be known yet while machines start.
Endpoint find_root(const Launched& job, const Deadline& deadline) {
  for (;;) {
    try {
      return resolve(job.host, job.port);
    } catch (const Error&) {
      if (deadline.expired()) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::unique_ptr<LinkBootstrap> meet_across_nodes(const Launched& job, const Arrival& mine) {
  if (job.host.empty())
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} has started ranks on several nodes and does not say where rank "
                            "0 is: link libplait-mpi, or set MASTER_ADDR, MASTER_PORT, RANK and "
                            "WORLD_SIZE",
                            call, job.launcher));
  const Secret secret = secret_of(job.job);
  if (mine.rank == 0) return group_of(meet_at(listen_for(job, secret, mine), secret, mine), mine);
  return group_of(meet_with(find_root(job, mine.deadline), secret, true, mine), mine);
}

/// The facts that the environment gives of this process.
struct Start {
  std::optional<Launched> job;
  std::optional<PmiJob> pmi;
  int rank = 0, size = 1;
};
Start find_start() {
  Start start{.job = find_launcher(), .pmi = find_pmi()};
  // MPICH's mpiexec starts its helpers by srun, and they start the ranks.
  const bool below_srun =
      start.job && start.job->launcher == "srun" && start.pmi &&
      (start.pmi->rank != start.job->rank || start.pmi->size != start.job->size);
  if (below_srun) start.job.reset();
  else if (start.job) start.pmi.reset();
  if (start.job) start.rank = start.job->rank, start.size = start.job->size;
  if (start.pmi) start.rank = start.pmi->rank, start.size = start.pmi->size;
  return start;
}

/// A process that is to be alone must not be one of several whose launcher this one can't read.
void check_loneliness(const Start& start) {
  if (start.size > 1) return;
  if (!start.job && !start.pmi) refuse_incomplete_launchers(call);
  warn_of_hidden_launcher(call);
}

/// All processes of the launcher, or this one alone.
std::unique_ptr<LinkBootstrap> meet(std::optional<std::chrono::nanoseconds> timeout) {
  const auto by_id = [](const UniqueId& id, const Arrival& mine) {
    const IdContents contents = contents_of(id);
    if (mine.rank != 0)
      return group_of(meet_with(contents.root, contents.secret, false, mine), mine);
    return group_of(meet_at(*take_listener(contents), contents.secret, mine), mine);
  };
  const Start start = find_start();
  check_loneliness(start);
  const auto& job = start.job;
  Arrival mine = arrive(call, start.rank, start.size, timeout);
  mine.across_nodes = job && !job->is_local;
  if (start.size == 1) return group_of(meet_at({}, {}, mine), mine);
  if (start.pmi) return by_id(share_id(*start.pmi, mine.limit), mine);
  if (!job->is_local) return meet_across_nodes(*job, mine);
  return group_of(meet_locally(job->job, secret_of(job->job), mine), mine);
}

/// True if a launcher offers what MPI's libraries use.
bool has_pmi() { return environment("PMIX_RANK") || environment("PMI_RANK"); }

bool takes_mpi() {
  if (mpi_world == nullptr) return false;
  if (mpi_is_initialized.load()()) return true;
  // Under torchrun and a plain srun, MPI would take every process for a job of its own. A torchrun
  // below an srun has inherited that one's PMI.
  const auto job = find_launcher();
  return !job || job->launcher == "mpirun" || (job->launcher == "srun" && has_pmi());
}

/// The processes meet once, and every call makes a group of the same ranks: a launcher's means
/// serve one meeting, and a group on the same link needs no new connections.
class World {
 public:
  std::unique_ptr<Bootstrap> make_group(std::optional<std::chrono::nanoseconds> timeout) {
    const std::scoped_lock lock(mutex_);
    if (!all_) all_ = meet(timeout);
    try {
      all_->set_timeout(timeout ? *timeout : timeout_of_environment());
      return all_->again();
    } catch (const Error& error) {
      // A group that has failed once fails for good. A difference of the calls leaves it usable.
      if (error.code() == ErrorCode::bootstrap) all_.reset();
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<LinkBootstrap> all_;
};

}  // namespace

void offer_mpi_world(MpiWorld make, bool (*is_initialized)()) {
  mpi_is_initialized = is_initialized;
  mpi_world = make;
}

}  // namespace detail

std::unique_ptr<Bootstrap> make_world_bootstrap(std::optional<std::chrono::nanoseconds> timeout) {
  if (detail::takes_mpi()) {
    const bool chosen = detail::mpi_is_initialized.load()();
    auto world = detail::mpi_world.load()(timeout);
    // MPI knows launchers that Plait doesn't. Without any it makes a world of one rank.
    if (!chosen && world->size() == 1 && !detail::has_pmi())
      detail::check_loneliness(detail::find_start());
    return world;
  }
  static OfProcess<detail::World> world;
  return world.get().make_group(timeout);
}

}  // namespace plait
