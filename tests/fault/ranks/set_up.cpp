// Ranks that are lost while the ranks make communicators or allocate.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "fault/ranks/faults.hpp"

namespace plait::test {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::function<void()> in_idup;

}  // namespace

/// Every rank prints when it came to its end. The clock is the machine's.
int setup(const std::string& how, const std::string& where, unsigned number) {
  int level = 0, rank = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int processes[3] = {}, process = getpid();
  MPI_Allgather(&process, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD);
  const int chosen = static_cast<int>(number % 3);
  std::minstd_rand random(number);
  random.discard(10);
  const std::chrono::microseconds delay(random() % (where == "create" ? 60000 : 30000));
  const auto say_when = [=] {
    std::printf("victim %d at %.3f after %d us\n", rank, seconds(),
                static_cast<int>(delay.count()));
    std::fflush(stdout);
  };
  const auto meet_fault = [&] {
    std::thread([=] {
      std::this_thread::sleep_for(delay);
      say_when();
      std::raise(how == "stop" ? SIGSTOP : SIGKILL);
    }).detach();
  };
  const std::string what = outcome([&] {
    const bool unlimited = how == "kill_without_deadline";
    const auto create = [=] {
      return make_communicator(MPI_COMM_WORLD,
                               {.timeout = std::chrono::seconds(unlimited ? 0 : 1)});
    };
    if (where == "idup" && rank == chosen)
      in_idup = [&] {
        say_when();
        if (how == "hold") std::this_thread::sleep_for(std::chrono::seconds(3));
        else std::raise(how == "stop" ? SIGSTOP : SIGKILL);
      };
    if (where == "create") {
      if (unlimited)
        static_cast<void>(
            create());  // before it has said which process it is, a rank's end can't be known
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == chosen) meet_fault();
      for (;;) static_cast<void>(create());
    }
    Communicator comm = create();
    if (where == "idup") return;
    comm.bootstrap().barrier();
    if (rank == chosen) meet_fault();
    for (int round = 0;; ++round) {
      if (where == "split") static_cast<void>(comm.split(round % 2 * rank, 0));
      else if (where == "duplicate") static_cast<void>(comm.duplicate());
      else static_cast<void>(comm.allocate<float>(1000));
    }
  });
  std::printf("rank %d at %.3f: %s\n", rank, seconds(), what.substr(0, what.find('\n')).c_str());
  std::fflush(stdout);
  if (rank != chosen) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(processes[chosen], SIGCONT);
  }
  std::_Exit(0);
}

}  // namespace plait::test

// The library's calls come here.
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  if (plait::test::in_idup) plait::test::in_idup();
  return PMPI_Comm_idup(comm, copy, request);
}
