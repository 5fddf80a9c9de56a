// The group of the processes that a launcher has started.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/launcher/environment.hpp"
#include "bootstrap/processes.hpp"
#include "bootstrap/socket/address.hpp"
#include "plait/error.hpp"
#include "plait/unique_id.hpp"
#include "support/bootstrap_conduct.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::message_of;
using test::Process;
using Clock = std::chrono::steady_clock;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables of launchers that the test itself may have inherited.
void clear_environment() {
  std::istringstream names(
      "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID "
      "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK "
      "OMPI_COMM_WORLD_LOCAL_SIZE PMIX_NAMESPACE PMIX_RANK PMI_FD PMI_ID PMI_RANK PMI_SIZE "
      "SLURM_PROCID SLURM_NTASKS SLURM_STEP_ID SLURM_JOB_ID SLURM_STEP_NUM_TASKS "
      "SLURM_STEP_NUM_NODES SLURM_NNODES SLURM_STEP_NODELIST SLURM_NODELIST PLAIT_SOCKET_PORT "
      "PLAIT_SOCKET_SECRET");
  for (std::string name; names >> name;) ::unsetenv(name.c_str());
}
void set(const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

class Launcher : public testing::Test {
 protected:
  void SetUp() override { clear_environment(); }
  void TearDown() override { clear_environment(); }
};

/// torchrun's for one rank of a job that no other test has.
Variables torchrun(int rank, int size, const std::string& job) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "localhost"},
          {"MASTER_PORT", "29517"},
          {"TORCHELASTIC_RUN_ID", job + std::to_string(::getppid())}};
}

TEST_F(Launcher, WithoutOneAProcessIsAlone) {
  EXPECT_FALSE(detail::find_launcher().has_value());
  auto alone = make_world_bootstrap();
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(make_world_bootstrap()->all_gather(4), std::vector<int>{4});
}

TEST_F(Launcher, IsTheInnermost) {
  const auto expect = [](const char* launcher, int rank, int size, bool is_local) {
    const auto found = detail::find_launcher().value();
    EXPECT_EQ(found.launcher, launcher);
    EXPECT_EQ(found.rank, rank) << launcher;
    EXPECT_EQ(found.size, size) << launcher;
    EXPECT_EQ(found.is_local, is_local) << launcher;
    return found;
  };
  set({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}});
  EXPECT_FALSE(detail::find_launcher().has_value());  // a batch script
  set({{"SLURM_STEP_ID", "2"}, {"SLURM_NNODES", "2"}, {"SLURM_NODELIST", "n[03-04]"}});
  auto found = expect("srun", 3, 8, false);
  EXPECT_EQ(found.host, "n03");
  EXPECT_EQ(found.port, 20000 + 77 * 16 + 2);
  set({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "1"}, {"PLAIT_SOCKET_PORT", "9"}});
  EXPECT_EQ(expect("srun", 3, 4, true).port, 9);
  set({{"OMPI_COMM_WORLD_RANK", "1"},
       {"OMPI_COMM_WORLD_SIZE", "2"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_EQ(expect("mpirun", 1, 2, false).host, "");
  set(torchrun(5, 6, "job"));
  ::unsetenv("PLAIT_SOCKET_PORT");
  EXPECT_EQ(expect("torchrun", 5, 6, true).port, 29518);
  ::unsetenv("LOCAL_WORLD_SIZE");
  EXPECT_TRUE(detail::find_launcher()->is_local);  // everything is at localhost
  ::setenv("MASTER_ADDR", "10.1.2.3", 1);
  EXPECT_FALSE(detail::find_launcher()->is_local);
}

TEST_F(Launcher, NamesWhatItCannotUnderstand) {
  const auto refusal = [] {
    return message_of(ErrorCode::invalid_argument, [] { detail::find_launcher(); });
  };
  set(torchrun(2, 2, "job"));
  EXPECT_EQ(refusal(), "RANK=2 and WORLD_SIZE=2 contradict each other");
  set({{"RANK", "first"}});
  expect_contains(refusal(), "RANK=\"first\"");
  set({{"RANK", "0"}, {"MASTER_PORT", "65536"}});
  expect_contains(refusal(), "MASTER_PORT=\"65536\"");
  clear_environment();
  set({{"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(refusal(), "mpirun has started this process, but OMPI_COMM_WORLD_SIZE is not set");
}

/// A process that starts as a world of one though others wait for it would be silently wrong.
TEST_F(Launcher, NamesTheVariablesThatAreMissing) {
  test::run_processes(1, [](int) {
    const auto refusal = [](const Variables& variables) {
      clear_environment();
      set(variables);
      return message_of(ErrorCode::invalid_argument, [] { make_world_bootstrap(1s); });
    };
    const Variables all = torchrun(0, 2, "partial");
    EXPECT_EQ(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}),
              "make_world_bootstrap: RANK, WORLD_SIZE are set, as by torchrun for one rank of "
              "several, but MASTER_PORT is not: set the rest, or unset RANK, WORLD_SIZE to run one "
              "rank alone");
    for (const std::string missing : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
      Variables others = all;
      for (auto& [name, value] : others)
        if (name == missing) value.clear();  // empty and unset mean the same
      expect_contains(refusal(others), missing + " is not: set the rest");
    }
    for (const auto& [name, missing] :
         Variables{{"RANK", "WORLD_SIZE, MASTER_ADDR, MASTER_PORT are"},
                   {"WORLD_SIZE", "RANK, MASTER_ADDR, MASTER_PORT are"},
                   {"LOCAL_RANK", "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are"},
                   {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_LOCAL_SIZE are"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, "},
                   {"PMIX_RANK", "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, "},
                   {"SLURM_STEP_ID", "SLURM_PROCID, SLURM_STEP_NUM_TASKS are"},
                   {"SLURM_PROCID", "SLURM_STEP_ID, SLURM_STEP_NUM_TASKS are"},
                   {"PMI_RANK", "PMI_FD, PMI_SIZE are"},
                   {"PMI_SIZE", "PMI_FD, PMI_RANK are"},
                   {"PMI_ID", "PMI_FD, PMI_RANK, PMI_SIZE are"}})
      expect_contains(refusal({{name, "3"}}), name + " is set, as by ");
    // By hand in a shell of `srun --pty`, which is a job of one rank.
    expect_contains(refusal({{"SLURM_PROCID", "0"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_STEP_NUM_TASKS", "1"},
                             {"RANK", "0"},
                             {"WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "localhost"}}),
                    "MASTER_PORT is not");
  });
}

/// Shells and scripts export these for other programs.
TEST_F(Launcher, RunsAloneWhereVariablesSayNothing) {
  for (const Variables& variables :
       {Variables{{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}},
        Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}},
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}},
        Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}},
        Variables{{"SLURM_PROCID", "0"},
                  {"SLURM_STEP_ID", "0"},
                  {"SLURM_STEP_NUM_TASKS", "1"},
                  {"LOCAL_RANK", "0"},
                  {"WORLD_SIZE", "8"}},
        Variables{{"PMI_FD", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}}) {
    clear_environment();
    set(variables);
    test::run_processes(1, [](int) { EXPECT_EQ(make_world_bootstrap(1s)->size(), 1); });
  }
}

TEST_F(Launcher, FindsTheFirstOfSlurmsNodes) {
  EXPECT_EQ(detail::first_node("node7"), "node7");
  EXPECT_EQ(detail::first_node("alpha,beta"), "alpha");
  EXPECT_EQ(detail::first_node("node[07-09,11],other"), "node07");
  EXPECT_EQ(detail::first_node("node[3]"), "node3");
  EXPECT_EQ(detail::first_node("rack[1-2]-node.local,x"), "rack1-node.local");
  EXPECT_EQ(detail::first_node("broken[1"), "broken");
  EXPECT_EQ(detail::first_node(""), "");
}

void expect_world(int rank, int size) {
  for (int round = 0; round < 3; ++round) {
    auto world = make_world_bootstrap(10s);
    ASSERT_EQ(world->rank(), rank);
    ASSERT_EQ(world->size(), size);
    EXPECT_TRUE(world->parent_ranks().empty());
    EXPECT_EQ(world->timeout(), 10s);
    auto other = make_world_bootstrap();
    EXPECT_EQ(other->broadcast(rank, size - 1), size - 1);
    world->barrier();
  }
}

TEST_F(Launcher, RanksOfOneNodeMeetSeveralTimes) {
  test::run_processes(4, [](int rank) {
    set(torchrun(rank, 4, "local"));
    expect_world(rank, 4);
  });
}

TEST_F(Launcher, RanksOfSeveralNodesMeet) {
  test::run_processes(3, [](int rank) {
    if (rank == 0) std::this_thread::sleep_for(300ms);  // the others call in vain first
    set(torchrun(rank, 3, "nodes"));
    set({{"LOCAL_WORLD_SIZE", "1"}, {"PLAIT_NODE", std::to_string(rank)}});
    expect_world(rank, 3);
  });
}

/// The port has another program's answers first, which is no reason to give up.
TEST_F(Launcher, ANodesPortMayBeBusyAtFirst) {
  Process squatter([] {
    const auto listener = detail::listen_at(detail::resolve("127.0.0.1", 29541));
    std::this_thread::sleep_for(400ms);
  });
  std::this_thread::sleep_for(100ms);
  std::vector<Process> ranks;
  for (const int rank : {1, 0}) {
    ranks.emplace_back([rank] {
      if (rank == 0) std::this_thread::sleep_for(700ms);
      set(torchrun(rank, 2, "busy"));
      set({{"LOCAL_WORLD_SIZE", "1"}, {"PLAIT_SOCKET_PORT", "29541"}});
      expect_world(rank, 2);
    });
  }
  for (Process& process : ranks) EXPECT_EQ(process.wait(), 0);
}

TEST_F(Launcher, AnotherSecretDoesNotGetIn) {
  test::run_processes(2, [](int rank) {
    set(torchrun(rank, 2, "secret"));
    set({{"LOCAL_WORLD_SIZE", "1"},
         {"PLAIT_SOCKET_PORT", "29543"},
         {"PLAIT_SOCKET_SECRET", rank == 0 ? "right" : "wrong"}});
    message_of(ErrorCode::bootstrap, [] { make_world_bootstrap(1s); });
  });
}

TEST_F(Launcher, MissingRanksAreNamed) {
  test::run_processes(3, [](int rank) {
    set(torchrun(rank, 4, "missing"));
    expect_contains(message_of(ErrorCode::bootstrap, [] { make_world_bootstrap(1s); }),
                    "rank 3 did not arrive at make_world_bootstrap within 1 s");
  });
}

/// Two ranks with one number are told at once, and so is the third, on one node and on several.
TEST_F(Launcher, RanksWithOneNumberAreNamed) {
  for (const std::string nodes : {"one", "several"}) {
    for (const int twin : {0, 1, 2}) {
      test::run_processes(3, [&](int process) {
        const int rank = process == 2 ? twin : std::min(process, 1);
        if (twin == 2 && process == 2) return;  // rank 2 never comes
        set(torchrun(rank, 3, "twins" + nodes + std::to_string(twin)));
        if (nodes == "several") set({{"LOCAL_WORLD_SIZE", "1"}, {"PLAIT_SOCKET_PORT", "29545"}});
        const auto start = Clock::now();
        if (twin == 2) {
          expect_contains(message_of(ErrorCode::bootstrap, [] { make_world_bootstrap(1s); }),
                          "rank 2 did not arrive at make_world_bootstrap within 1 s");
          return;
        }
        expect_contains(message_of(ErrorCode::mismatch, [] { make_world_bootstrap(60s); }),
                        fmt::format("two ranks passed rank {}", twin));
        EXPECT_LT(Clock::now() - start, 20s);
      });
    }
  }
}

TEST_F(Launcher, ABusyPortHasTheDeadline) {
  const auto listener = detail::listen_at(detail::resolve("127.0.0.1", 29547));
  test::run_processes(1, [](int) {
    set(torchrun(0, 2, "port"));
    set({{"LOCAL_WORLD_SIZE", "1"}, {"PLAIT_SOCKET_PORT", "29547"}});
    const auto start = Clock::now();
    expect_contains(message_of(ErrorCode::bootstrap, [] { make_world_bootstrap(200ms); }),
                    ":29547: Address already in use, for 0.2 s: PLAIT_SOCKET_PORT names another");
    EXPECT_LT(Clock::now() - start, 4s);
  });
}

TEST_F(Launcher, ARankIsNamedOnce) {
  test::run_processes(2, [](int rank) {
    set(torchrun(rank, 2, "doubled"));
    if (rank == 0) ::setenv("PLAIT_TIMEOUT", "abc", 1);
    const std::string text =
        message_of(ErrorCode::invalid_argument, [] { make_world_bootstrap(); });
    expect_contains(text, rank == 0 ? "make_world_bootstrap: rank 0: PLAIT_TIMEOUT="
                                    : "make_world_bootstrap: rank 1: rank 0: PLAIT_TIMEOUT=");
  });
}

TEST_F(Launcher, WithoutAHostForSeveralNodesSaysWhatToDo) {
  test::run_processes(1, [](int) {
    set({{"OMPI_COMM_WORLD_RANK", "1"},
         {"OMPI_COMM_WORLD_SIZE", "2"},
         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
    expect_contains(message_of(ErrorCode::unsupported, [] { make_world_bootstrap(1s); }),
                    "mpirun has started ranks on several nodes and does not say where rank 0 is");
  });
}

/// Another user takes the name of the meeting place, listens there, and adds others like those of
/// the ranks. Neither it nor its calls keep the ranks from meeting, and it learns nothing.
TEST_F(Launcher, AnotherUserCanNeitherJoinNorKeepRanksOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  // The name is made of the real user, so that the other one finds it; the system tells who calls.
  const auto become_another = [] {
    if (::setresuid(0, 65534, 0) != 0) ::_exit(2);
  };
  for (const bool takes_name : {true, false}) {
    const std::string job = takes_name ? "squatted" : "visited";
    Process other([&] {
      become_another();
      if (!takes_name) std::this_thread::sleep_for(100ms);
      set(torchrun(takes_name ? 0 : 1, 2, job));
      message_of(ErrorCode::bootstrap, [&] { make_world_bootstrap(takes_name ? 3s : 1s); });
    });
    if (takes_name) std::this_thread::sleep_for(500ms);
    std::vector<Process> ranks;
    for (const int rank : {0, 1})
      ranks.emplace_back([&, rank] {
        if (!takes_name && rank == 1) std::this_thread::sleep_for(1500ms);
        set(torchrun(rank, 2, job));
        expect_world(rank, 2);
      });
    for (Process& process : ranks) EXPECT_EQ(process.wait(), 0);
    EXPECT_EQ(other.wait(), 0);
  }
}

}  // namespace
}  // namespace plait
