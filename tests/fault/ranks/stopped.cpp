// Ranks whose process is stopped for longer than the deadline.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fault/ranks/faults.hpp"
#include "support/growing_backend.hpp"

namespace plait::test {

void stopped(const std::string& algorithm, bool late) {
  Member member(std::chrono::seconds(1), algorithm);
  member.begin();
  const auto processes = member.comm().bootstrap().all_gather(getpid());
  if (member.is_victim()) std::raise(SIGSTOP);
  const std::string what = outcome([&] {
    member.reduce();
    member.comm().synchronize();
  });
  member.report(what);
  if (late && member.rank() == 0) std::_Exit(0);
  if (late && !member.is_victim()) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (!member.is_victim()) kill(processes[victim], SIGCONT);
  // The stopped rank may find all it needs for that call, but then it hears of it.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  member.report("then " + outcome([&] { member.reduce(); }));
}

void stopped_inside(const std::string& algorithm) {
  Member member(std::chrono::seconds(2), algorithm);
  std::vector<float> data(std::size_t{8} << 20);
  for (int i = 0; i < 10; ++i) member.call(std::span(data).first(1000));
  member.comm().synchronize();
  const auto processes = member.comm().bootstrap().all_gather(getpid());
  member.call(data);
  if (member.is_victim()) std::raise(SIGSTOP);
  member.report(outcome([&] { member.comm().synchronize(); }));
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);  // a root may be through
  while (!member.comm().async_error() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!member.is_victim()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // all others have reported
    kill(processes[static_cast<std::size_t>(victim)], SIGCONT);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  member.report("then " + outcome([&] { member.call(data); }));
}

/// Rank 0 sends the victim more than that receives.
void differs_in_message() {
  Member member(std::chrono::seconds(10), "");
  Communicator& comm = member.comm();
  std::vector<float> data(1000);
  member.report(outcome([&] {
    comm.bootstrap().barrier();              // a rank may still be in `allocate`
    for (int call = 0; call < 10; ++call) {  // the first ones agree
      if (comm.rank() == 0) comm.send(std::span<const float>(data), 1);
      if (comm.rank() == 1) comm.recv(std::span(data), 0);
    }
    if (comm.rank() == 0) comm.send(std::span<const float>(data), 1);
    if (comm.rank() == 1) comm.recv(std::span(data).first(999), 0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!comm.async_error() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm.synchronize();
  }));
}

void differs(const std::string& algorithm) {
  if (algorithm == "message") return differs_in_message();
  Member member(std::chrono::seconds(10), algorithm);
  std::vector<float> data(1000);
  member.report(outcome([&] {
    member.begin();  // at whose end others may still meet when they hear of the victim's call
    member.call(std::span(data).first(member.is_victim() ? 999 : 1000));
    member.comm().synchronize();
    // Where the data of both sizes travel alike, the call ends, and its difference shows later.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!member.comm().async_error() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    member.comm().synchronize();
  }));
}

void refused(const std::string& algorithm) {
  Member member(std::chrono::seconds(10), algorithm);
  std::vector<float> data(1000);
  member.report(outcome([&] {
    member.begin();  // at whose end others may still meet when they hear of the victim's call
    if (member.is_victim())
      static_cast<void>(
          outcome([&] { member.call(std::span(static_cast<float*>(nullptr), 1000)); }));
    for (int call = 0; call < 1000; ++call) {
      member.call(data);
      member.comm().synchronize();
    }
  }));
}

void growing(const std::string& how) {
  static_cast<void>(stand_in_for_cuda<GrowingBackend>());
  Communicator comm = make_communicator(
      MPI_COMM_WORLD,
      {.backend = BackendKind::cuda, .timeout = std::chrono::seconds(how == "stop" ? 1 : 0)});
  const int rank = comm.rank();
  const auto processes = comm.bootstrap().all_gather(getpid());
  std::vector<float> x(1000);
  const auto reduce = [&](const char* algorithm) {
    comm.all_reduce(std::span<const float>(x), std::span(x), ReduceOp::sum, {},
                    {.algorithm = algorithm, .threads = 1});
    comm.synchronize();
  };
  reduce("oneshot_ll");
  comm.bootstrap().barrier();
  if (rank == victim)
    GrowingBackend::before_reserve = [&](std::size_t) {
      std::raise(how == "stop" ? SIGSTOP : SIGKILL);
    };
  say(rank, outcome([&] { reduce("twoshot_ll128"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (rank != victim) kill(processes[static_cast<std::size_t>(victim)], SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  say(rank, "then " + outcome([&] { reduce("oneshot_ll"); }));
}

}  // namespace plait::test
