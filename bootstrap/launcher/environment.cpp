#include "bootstrap/launcher/environment.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

constexpr long most = std::numeric_limits<int>::max();

bool is_set(const char* name) { return environment(name).has_value(); }

/// A variable that must be set.
int number(const std::string& launcher, const char* name, long least, long last = most) {
  if (!is_set(name))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has started this process, but {} is not set", launcher, name));
  return static_cast<int>(environment_integer(name, least, least, last));
}

Launched ranks(const std::string& launcher, const char* rank, const char* size) {
  Launched found;
  found.launcher = launcher;
  found.size = number(launcher, size, 1);
  found.rank = number(launcher, rank, 0);
  if (found.rank >= found.size)
    throw Error(ErrorCode::invalid_argument, fmt::format("{}={} and {}={} contradict each other",
                                                         rank, found.rank, size, found.size));
  return found;
}

/// The port for several nodes. `usual`: without PLAIT_SOCKET_PORT.
std::uint16_t port_or(long usual) {
  return static_cast<std::uint16_t>(environment_integer("PLAIT_SOCKET_PORT", usual, 1, 65535));
}

Launched torchrun() {
  Launched found = ranks("torchrun", "RANK", "WORLD_SIZE");
  const int port = number(found.launcher, "MASTER_PORT", 1, 65535);
  found.host = *environment("MASTER_ADDR");
  // torchrun itself listens at MASTER_PORT.
  found.port = port_or(port < 65535 ? port + 1 : port - 1);
  found.is_local = is_set("LOCAL_WORLD_SIZE")
                       ? number(found.launcher, "LOCAL_WORLD_SIZE", 1) == found.size
                       : found.size == 1 || found.host == "localhost" ||
                             found.host.starts_with("127.") || found.host == "::1";
  found.job = fmt::format("torchrun {}:{} {} {}", found.host, port,
                          environment("TORCHELASTIC_RUN_ID").value_or(""),
                          environment("TORCHELASTIC_RESTART_COUNT").value_or(""));
  return found;
}

Launched mpirun() {
  Launched found = ranks("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  found.is_local = number(found.launcher, "OMPI_COMM_WORLD_LOCAL_SIZE", 1) == found.size;
  found.job = fmt::format("mpirun {} {} {}", environment("PMIX_NAMESPACE").value_or(""),
                          environment("OMPI_MCA_ess_base_jobid").value_or(""),
                          environment("PMIX_SERVER_URI2").value_or(""));
  return found;
}

Launched slurm() {
  Launched found = ranks("srun", "SLURM_PROCID",
                         is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  const auto either = [](const char* first, const char* second) {
    const auto value = environment(first);
    return value ? *value : environment(second).value_or("");
  };
  found.job = fmt::format("srun {}.{}", environment("SLURM_JOB_ID").value_or(""),
                          environment("SLURM_STEP_ID").value_or(""));
  const char* nodes = is_set("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  found.is_local = found.size == 1 || environment_integer(nodes, most, 1, most) == 1;
  found.host = first_node(either("SLURM_STEP_NODELIST", "SLURM_NODELIST"));
  // Jobs that share a node have different numbers, so their ports rarely collide.
  constexpr long last = std::numeric_limits<std::uint32_t>::max();
  const long job = environment_integer("SLURM_JOB_ID", 0, 0, last);
  const long step = environment_integer("SLURM_STEP_ID", 0, 0, last);
  found.port = port_or(20000 + (job * 16 + step % 16) % 10000);
  return found;
}

}  // namespace

std::string first_node(const std::string& list) {
  const std::string_view all = list, head = all.substr(0, all.find_first_of(",["));
  if (head.size() == all.size() || all[head.size()] == ',') return std::string(head);
  const std::string_view inside = all.substr(head.size() + 1);
  const std::string_view number = inside.substr(0, inside.find_first_of(",-]"));
  const std::size_t close = inside.find(']');
  if (close == std::string_view::npos) return std::string(head);
  const std::string_view rest = inside.substr(close + 1);
  return fmt::format("{}{}{}", head, number, rest.substr(0, rest.find(',')));
}

std::optional<Launched> find_launcher() {
  if (is_set("RANK") && is_set("WORLD_SIZE") && is_set("MASTER_ADDR") && is_set("MASTER_PORT"))
    return torchrun();
  if (is_set("OMPI_COMM_WORLD_RANK")) return mpirun();
  // A batch script has Slurm's other variables, too, but no step has started it.
  if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID")) return slurm();
  return std::nullopt;
}

}  // namespace plait::detail
