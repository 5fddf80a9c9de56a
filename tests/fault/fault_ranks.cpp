// Three ranks, or four, of which rank 1, or the one that is named, meets with a fault; every rank
// prints what became of it. Run by fault_test.sh, which knows what to expect.
//
//   killed ALGORITHM       SIGKILL in the middle of calls
//   all_killed             the same for all ranks
//   stopped ALGORITHM      SIGSTOP for longer than the deadline, then SIGCONT
//   late ALGORITHM         the same, and rank 0's process ends once its time is over: the victim
//                          comes after that
//   inside ALGORITHM RANK  stopped in the middle of a call, which all ranks have enqueued
//   refused ALGORITHM      a call of it is refused, and it goes on
//   differs ALGORITHM      it makes a call of another size; `message`: it receives one
//   growing HOW            killed or stopped in a call that allocates scratch memory with the
//                          others. HOW: kill or stop
//   gone                   the process ends without a word; the others only destroy the
//                          communicator
//   exits                  it calls exit(), and Plait ends MPI, which waits for the others
//   forks                  it forks children that make calls, destroy what they have, exit, exec:
//                          the ranks go on all the while
//   aborted [checked]      aborts while the others are in calls on the host, with PLAIT_CHECK=1 or
//                          without; then a new communicator works
//   descriptors            its limit of open files is reached
//   memory                 its limit of memory is reached, in an allocation and while a
//                          communicator is made
//   threads                it can start no thread while a communicator is made
//   unmapped WHAT          it passes a buffer that is not mapped to its end. WHAT: pull or
//                          pairwise_pull
//   main_ended             the first thread of each process ends, and another one calls what reads
//                          the peers' memory
//   creates                no fault: communicators are made and used, with a deadline, over and
//                          over (strangers_test)
//   setup HOW WHERE N      HOW: kill, stop, or kill_without_deadline. WHERE: create, split,
//                          duplicate or allocate, over and over; rank N % 3 meets with it after a
//                          time that N gives. WHERE may be idup: when the first creation calls
//                          MPI_Comm_idup. There, HOW may be hold: the rank sleeps for three seconds
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "fault/ranks/faults.hpp"

namespace plait::test {
namespace {

using Fault = std::function<void(const std::string& argument)>;
std::map<std::string, Fault> faults() {
  return {
      {"killed", [](const std::string& algorithm) { killed(algorithm, false); }},
      {"all_killed", [](const std::string& algorithm) { killed(algorithm, true); }},
      {"stopped", [](const std::string& algorithm) { stopped(algorithm, false); }},
      {"late", [](const std::string& algorithm) { stopped(algorithm, true); }},
      {"inside", stopped_inside},
      {"differs", differs},
      {"refused", refused},
      {"growing", growing},
      {"gone", [](const std::string&) { gone(); }},
      {"exits", [](const std::string&) { exits(); }},
      {"forks", [](const std::string&) { forks(); }},
      {"aborted", [](const std::string& how) { aborted(how == "checked"); }},
      {"descriptors", [](const std::string&) { descriptors(); }},
      {"memory", [](const std::string&) { memory(); }},
      {"threads", [](const std::string&) { threads(); }},
      {"unmapped", unmapped},
      {"main_ended", [](const std::string&) { main_ended(); }},
      {"creates", [](const std::string&) { creates(); }},
  };
}

}  // namespace

void say(int rank, const std::string& what) {
  std::printf("rank %d: %s\n", rank, what.c_str());
  std::fflush(stdout);
}

}  // namespace plait::test

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", argument = argc > 2 ? argv[2] : "";
  if (mode == "setup" && argc > 4)
    return plait::test::setup(argument, argv[3], static_cast<unsigned>(std::atoi(argv[4])));
  if (mode == "inside" && argc > 3) plait::test::victim = std::stoi(argv[3]);
  const auto faults = plait::test::faults();
  const auto fault = faults.find(mode);
  if (fault == faults.end()) return 2;
  fault->second(argument);
  return 0;
}
