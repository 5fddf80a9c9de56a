// Ranks that fork: children that make calls, destroy what they have, exit or exec.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fault/ranks/faults.hpp"
#include "plait/plait.h"

namespace plait::test {

namespace {

/// Twenty calls with right values, and all ranks have made them. Half of them are long: between
/// nodes, threads of their own move such messages.
std::string work(Member& member) {
  std::string wrong;
  for (int i = 0; i < 20; ++i) {
    std::vector<float> x(i % 2 == 0 ? 1000 : 200'000, static_cast<float>(member.rank() + i));
    member.comm().all_reduce(std::span(x), std::span(x), ReduceOp::sum);
    member.comm().synchronize();
    for (const float value : x)
      if (value != static_cast<float>(3 * i + 3)) wrong = ", but sums are wrong";
  }
  member.comm().bootstrap().barrier();
  return "went on" + wrong;
}

void go_on(Member& member, const std::string& what) {
  const std::string went = outcome([&] { say(member.rank(), what + ": " + work(member)); });
  if (went != "no error") say(member.rank(), what + ": " + went);
}

/// While a child runs `body`. Then says how the child has ended.
template <class Body>
void in_child(Member& member, const std::string& what, Body body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    body();
    _exit(0);
  }
  go_on(member, what);
  int status = 0;
  waitpid(child, &status, 0);
  say(member.rank(),
      what + " ends with " + (WIFEXITED(status) ? "status " : "signal ") +
          std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)));
}

}  // namespace

void forks() {
  plait_comm handle = nullptr;
  if (plait_comm_create_world(nullptr, &handle) != PLAIT_SUCCESS) std::abort();
  static std::optional<Member> member;  // destroyed by exit
  member.emplace(std::chrono::seconds(20), std::string());
  const auto on_victim = [&](const std::string& what, const auto& body) {
    if (member->is_victim()) in_child(*member, what, body);
    else go_on(*member, what);
  };
  on_victim("calls", [&] {
    say(victim, "child reduces: " + outcome([] { member->reduce(); }));
    say(victim, "child allocates: " +
                    outcome([] { static_cast<void>(member->comm().allocate<float>(1)); }));
    say(victim, "child makes one of MPI: " + outcome([] { make_communicator(MPI_COMM_WORLD); }));
    float x = 0;
    const plait_status status =
        plait_all_reduce(handle, &x, &x, 1, PLAIT_F32, PLAIT_SUM, nullptr, nullptr);
    say(victim, std::string("child reduces in C: ") + plait_status_name(status) + ": " +
                    plait_last_error());
    say(victim,
        std::string("child destroys in C: ") + plait_status_name(plait_comm_destroy(handle)));
  });
  on_victim("destroys", [] { member.reset(); });
  on_victim("exit",
            [] { std::exit(3); });  // NOLINT(concurrency-mt-unsafe): the child has one thread
  on_victim("failed exec", [] {
    execl("/nonexistent", "nonexistent", nullptr);
    std::exit(4);  // NOLINT(concurrency-mt-unsafe)
  });
  on_victim("exec", [] { execl("/bin/true", "true", nullptr); });
  on_victim("own ranks", [] {
    auto bootstraps = make_thread_bootstraps(1);
    auto comm = Communicator::create(std::move(bootstraps[0]), {.backend = BackendKind::host});
    comm.barrier();
    comm.synchronize();
  });
  if (member->is_victim()) {
    say(victim,
        "system: " + std::to_string(std::system("exit 0")));  // NOLINT(concurrency-mt-unsafe)
    FILE* const pipe = popen("echo through", "r");
    char word[16] = "";
    say(victim, "popen: " + std::string(pipe != nullptr && std::fscanf(pipe, "%15s", word) == 1
                                            ? word
                                            : "nothing"));
    pclose(pipe);
  }
  go_on(*member, "at last");
  say(member->rank(), std::string("destroy: ") + plait_status_name(plait_comm_destroy(handle)));
  member.reset();
}

}  // namespace plait::test
