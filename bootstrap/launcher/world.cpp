#include "bootstrap/launcher/world.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "bootstrap/launcher/environment.hpp"
#include "bootstrap/launcher/local_meeting.hpp"
#include "bootstrap/launcher/pmi.hpp"
#include "bootstrap/socket/socket_bootstrap.hpp"
#include "bootstrap/socket/unique_id.hpp"
#include "core/environment.hpp"
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

/// Rank 0's listener. A machine's own name often stands for a loopback address on that machine, and
/// a service's name for none of the machine's: then it listens at all addresses.
UniqueFd listen_for(const Launched& job) {
  constexpr std::chrono::seconds patience{5};
  Endpoint own = resolve(job.host, job.port);
  if (is_loopback(own) || !is_own_address(own)) own.host = {};
  // A call of another program may have the port for a moment.
  for (const Deadline last(patience);;) {
    try {
      return listen_at(own);
    } catch (const Error&) {
      if (last.expired()) throw;
    }
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
  if (mine.rank == 0) return group_of(meet_at(listen_for(job), secret, mine), mine);
  return group_of(meet_with(find_root(job, mine.deadline), secret, true, mine), mine);
}

/// All processes of the launcher, or this one alone.
std::unique_ptr<LinkBootstrap> meet(std::optional<std::chrono::nanoseconds> timeout) {
  const auto by_id = [](const UniqueId& id, const Arrival& mine) {
    const IdContents contents = contents_of(id);
    if (mine.rank != 0)
      return group_of(meet_with(contents.root, contents.secret, false, mine), mine);
    return group_of(meet_at(*take_listener(contents), contents.secret, mine), mine);
  };
  const auto job = find_launcher();
  const auto pmi = job ? std::nullopt : find_pmi();
  const int rank = job ? job->rank : pmi ? pmi->rank : 0;
  const int size = job ? job->size : pmi ? pmi->size : 1;
  Arrival mine = arrive(call, rank, size, timeout);
  mine.across_nodes = job && !job->is_local;
  if (size == 1) return group_of(meet_at({}, {}, mine), mine);
  if (pmi) return by_id(share_id(*pmi, mine.limit), mine);
  if (!job->is_local) return meet_across_nodes(*job, mine);
  return by_id(share_id(job->job, mine), mine);
}

bool takes_mpi() {
  if (mpi_world == nullptr) return false;
  if (mpi_is_initialized.load()()) return true;
  // Under torchrun and a plain srun, MPI would take every process for a job of its own. A torchrun
  // below an srun has inherited that one's PMI.
  const auto job = find_launcher();
  const bool has_pmi = environment("PMIX_RANK") || environment("PMI_RANK");
  return !job || job->launcher == "mpirun" || (job->launcher == "srun" && has_pmi);
}

/// The processes meet once, and every call makes a group of the same ranks: a launcher's means
/// serve one meeting, and a group on the same link needs no new connections.
class World {
 public:
  std::unique_ptr<Bootstrap> part(std::optional<std::chrono::nanoseconds> timeout) {
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
  if (detail::takes_mpi()) return detail::mpi_world.load()(timeout);
  static OfProcess<detail::World> world;
  return world.get().part(timeout);
}

}  // namespace plait
