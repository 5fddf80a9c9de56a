#include "bootstrap/launcher/environment.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "core/log.hpp"
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

struct Variables {
  const char* launcher;
  const char *rank, *size;
  std::string_view needed;
  std::string_view signs;  // each of them says that this process is one of several
};
constexpr Variables by_torchrun{"torchrun", "RANK", "WORLD_SIZE",
                                "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT",
                                "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE"};
constexpr std::array all_launchers{
    by_torchrun,
    Variables{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
              "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE",
              "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK "
              "OMPI_COMM_WORLD_LOCAL_SIZE PMIX_RANK"},
    Variables{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
              "SLURM_PROCID SLURM_STEP_ID SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
    Variables{"mpiexec", "PMI_RANK", "PMI_SIZE", "PMI_FD PMI_RANK PMI_SIZE",
              "PMI_FD PMI_RANK PMI_SIZE PMI_ID PMI_PORT"}};

/// Those words of the list that are names of which `holds` is true.
std::vector<std::string> names_where(std::string_view list, bool (*holds)(const char*)) {
  std::vector<std::string> names;
  for (const std::string_view name : words(list))
    if (holds(std::string(name).c_str())) names.emplace_back(name);
  return names;
}

void refuse_if_incomplete(const Variables& launcher, const char* call) {
  std::vector<std::string> set = names_where(launcher.signs, is_set);
  const std::string rank = environment(launcher.rank).value_or("0");
  // A batch script has number 0.
  if (launcher.rank == std::string_view("SLURM_PROCID") && rank != "0")
    set.emplace_back(launcher.rank);
  if (set.empty() || (environment(launcher.size) == "1" && rank == "0")) return;
  const auto missing = names_where(launcher.needed, [](const char* name) { return !is_set(name); });
  if (missing.empty()) return;
  const auto are = [](const auto& names) { return names.size() == 1 ? "is" : "are"; };
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "{}: {} {} set, as by {} for one rank of several, but {} {} not: set the rest, or "
          "unset {} to run one rank alone",
          call, fmt::join(set, ", "), are(set), launcher.launcher, fmt::join(missing, ", "),
          are(missing), fmt::join(set, ", ")));
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
  std::optional<Launched> found;
  if (is_set("OMPI_COMM_WORLD_RANK")) found = mpirun();
  // A batch script has Slurm's other variables, too, but no step has started it.
  else if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID")) found = slurm();
  // A shell of `srun --pty` is a job of one rank, in which a user may start others by hand.
  if (found && found->size == 1 && is_set("RANK") && is_set("WORLD_SIZE"))
    refuse_if_incomplete(by_torchrun, "make_world_bootstrap");
  return found;
}

void refuse_incomplete_launchers(const char* call) {
  for (const Variables& launcher : all_launchers) refuse_if_incomplete(launcher, call);
  // The processes that a rank starts inherit its variables. They are alone, as is a rank whose
  // wrapper has closed the connection.
  static std::atomic<bool> has_warned = false;
  if (is_set("PMI_FD") && environment("PMI_SIZE") != "1" && !has_warned.exchange(true))
    log::warn(
        "{}: PMI_RANK={} and PMI_SIZE={}, but descriptor PMI_FD={} is no connection to mpiexec, so "
        "this process is rank 0 of 1",
        call, *environment("PMI_RANK"), *environment("PMI_SIZE"), *environment("PMI_FD"));
}

void warn_of_hidden_launcher(const char* call) {
  static std::atomic<bool> has_warned = false;
  std::vector<std::string> hidden;
  for (const Variables& launcher : all_launchers)
    for (std::string& name : names_where(launcher.signs, environment_is_hidden))
      hidden.push_back(std::move(name));
  if (hidden.empty() || has_warned.exchange(true)) return;
  log::warn(
      "{}: this program has more rights than its caller (setuid, setgid or file capabilities), so "
      "it reads no environment: it ignores {}, and is rank 0 of 1. Meet by a unique id instead",
      call, fmt::join(hidden, ", "));
}

}  // namespace plait::detail
