// Three ranks, or four, of which rank 1, or the one that is named, meets with a fault; every rank
// prints what became of it. Run by fault_test.sh, which knows what to expect.
//
//   fault_ranks killed ALGORITHM   SIGKILL in the middle of calls
//   fault_ranks all_killed         the same for all ranks
//   fault_ranks stopped ALGORITHM  SIGSTOP for longer than the deadline, then SIGCONT
//   fault_ranks inside ALGORITHM RANK  the same, in the middle of a call, which all ranks have
//   enqueued fault_ranks late ALGORITHM     the same, and rank 0's process ends once its time is
//   over: the victim comes after that fault_ranks gone               the process ends without a
//   word; the others only destroy the communicator fault_ranks exits              it calls exit(),
//   and Plait ends MPI, which waits for the others fault_ranks forks              it forks children
//   that make calls, destroy what they have, exit, exec: the ranks go on all the while fault_ranks
//   aborted [checked]  aborts while the others are in calls on the host, with PLAIT_CHECK=1 or
//   without; then a new communicator
//                                  works
//   fault_ranks descriptors        its limit of open files is reached
//   fault_ranks memory             its limit of memory is reached, in an allocation and while a
//   communicator is made fault_ranks creates            no fault: communicators are made and used,
//   with a deadline, over and over (strangers_test) fault_ranks threads            it can start no
//   thread while a communicator is made fault_ranks unmapped WHAT      it passes a buffer that is
//   not mapped to its end. WHAT: pull or pairwise_pull fault_ranks main_ended         the first
//   thread of each process ends, and another one calls what reads the peers' memory fault_ranks
//   growing HOW        it is killed or stopped in a call that allocates scratch memory with the
//   others. HOW: kill or stop fault_ranks setup HOW WHERE N  HOW: kill, stop, or
//   kill_without_deadline; WHERE: create, split, duplicate or allocate, over and over.
//                                  Rank N % 3 meets with it after a time that N gives. WHERE may be
//                                  idup: when the first creation calls MPI_Comm_idup. There, HOW
//                                  may be hold: the rank sleeps for three seconds
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "plait/mpi.hpp"
#include "plait/plait.h"
#include "plait/plait.hpp"
#include "support/growing_backend.hpp"
#include "support/no_threads.hpp"

namespace {

int victim = 1;

void say(int rank, const std::string& what) {
  std::printf("rank %d: %s\n", rank, what.c_str());
  std::fflush(stdout);
}

/// The outcome of a call: "no error", or the code and the text.
template <class Call>
std::string outcome(Call call) {
  try {
    call();
  } catch (const plait::Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
  return "no error";
}

class Member {
 public:
  Member(std::chrono::nanoseconds timeout, std::string algorithm)
      : comm_(plait::make_communicator(MPI_COMM_WORLD, {.backend = {}, .timeout = timeout})),
        x_(comm_.allocate<float>(1000)),
        algorithm_(std::move(algorithm)) {}

  plait::Communicator& comm() { return comm_; }
  int rank() const { return comm_.rank(); }
  /// A long one: no rank is through when it returns.
  void call(std::span<float> data) {
    if (algorithm_ == "chain")
      comm_.broadcast(std::span<const float>(data), data, victim, {}, {.algorithm = algorithm_});
    else
      comm_.all_reduce(std::span<const float>(data), data, plait::ReduceOp::sum, {},
                       {.algorithm = algorithm_});
  }
  bool is_victim() const { return rank() == victim; }
  void reduce() {
    comm_.all_reduce(x_.data(), x_.data(), x_.size(), plait::DataType::f32, plait::ReduceOp::sum,
                     {}, {.algorithm = algorithm_});
  }
  /// Ten calls that work, and all ranks have made them.
  void begin() {
    for (int i = 0; i < 10; ++i) reduce();
    comm_.synchronize();
    comm_.bootstrap().barrier();
  }
  void report(const std::string& what) const { say(rank(), what); }

 private:
  plait::Communicator comm_;
  plait::Buffer<float> x_;
  std::string algorithm_;
};

void killed(const std::string& algorithm, bool all) {
  Member member(std::chrono::seconds(0), algorithm);  // no deadline
  member.begin();
  if (!all && member.is_victim()) std::raise(SIGKILL);
  const std::string what = outcome([&] {
    member.reduce();
    if (all) std::raise(SIGKILL);
    member.comm().synchronize();
  });
  member.report(what);
}

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

void gone() {
  std::string what = outcome([] {
    Member member(std::chrono::seconds(0), {});
    member.begin();
    if (member.is_victim()) std::_Exit(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  say(-1, what);
}

/// MPI loses no rank, so all end in good order. What the victim has made before is not
/// disturbed.
void exits() {
  Member member(std::chrono::seconds(0), {});
  member.begin();
  member.reduce();
  if (member.is_victim()) {
    member.comm().synchronize();
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): not while another thread does
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  member.report("before " + outcome([&] { member.comm().synchronize(); }));
  member.report(outcome([&] {
    member.reduce();
    member.comm().synchronize();
  }));
}

void aborted(bool checked) {
  if (checked)
    setenv("PLAIT_CHECK", "1", 1);  // NOLINT(concurrency-mt-unsafe): there is no other thread yet
  int rank = 0;
  {
    Member member(std::chrono::seconds(0), {});
    rank = member.rank();
    member.begin();
    if (member.is_victim()) member.comm().abort("enough");
    else if (checked) member.report("call: " + outcome([&] { member.reduce(); }));
    else
      member.report("call: " +
                    outcome([&] { static_cast<void>(member.comm().allocate<float>(1000)); }));
    member.report("then " + outcome([&] { member.reduce(); }));
  }
  say(rank, "new: " + outcome([] { Member(std::chrono::seconds(20), {}).begin(); }));
}

/// Twenty calls with right values, and all ranks have made them.
std::string work(Member& member) {
  std::string wrong;
  for (int i = 0; i < 20; ++i) {
    std::vector<float> x(1000, static_cast<float>(member.rank() + i));
    member.comm().all_reduce(std::span(x), std::span(x), plait::ReduceOp::sum);
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
    say(victim,
        "child makes one of MPI: " + outcome([] { plait::make_communicator(MPI_COMM_WORLD); }));
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
    auto bootstraps = plait::make_thread_bootstraps(1);
    auto comm = plait::Communicator::create(std::move(bootstraps[0]),
                                            {.backend = plait::BackendKind::host});
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

class Limit {
 public:
  Limit(__rlimit_resource what, rlim_t value) : what_(what) {
    getrlimit(what_, &old_);
    const rlimit limit{value, old_.rlim_max};
    setrlimit(what_, &limit);
  }
  ~Limit() { setrlimit(what_, &old_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource what_;
  rlimit old_{};
};

/// A call that fails on one rank fails on all, and is as if it had not been made.
template <class Call>
void try_with(Member& member, __rlimit_resource what, rlim_t value, const char* name, Call call) {
  member.begin();
  {
    const Limit limit(what, member.is_victim() ? value : RLIM_INFINITY);
    member.report(std::string(name) + ": " + outcome(call));
  }
  member.report(std::string(name) + " again: " + outcome(call));
  member.report(std::string("calls after ") + name + ": " + outcome([&] { member.begin(); }));
}

void descriptors() {
  Member member(std::chrono::seconds(20), {});
  const auto open =
      static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
  try_with(member, RLIMIT_NOFILE, member.is_victim() ? open - 1 : open + 1000, "allocate",
           [&] { static_cast<void>(member.comm().allocate<float>(1000)); });
}

void memory() {
  Member member(std::chrono::seconds(20), {});
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t little = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (4u << 20);
  try_with(member, RLIMIT_AS, little, "allocate",
           [&] { static_cast<void>(member.comm().allocate<float>(8u << 20)); });
  try_with(member, RLIMIT_AS, little, "create",
           [&] { static_cast<void>(member.comm().duplicate()); });
}

void threads() {
  const auto world = plait::make_mpi_bootstrap(MPI_COMM_WORLD);
  const int rank = world->rank();
  // There is no other communicator: the first one of a process starts the monitor's thread.
  const auto create = [] { static_cast<void>(Member(std::chrono::seconds(20), {})); };
  {
    std::optional<plait::test::NoThreads> none;
    if (rank == victim) none.emplace();
    say(rank, "create: " + outcome(create));
  }
  say(rank, "create again: " + outcome([] { Member(std::chrono::seconds(20), {}).begin(); }));
}

void unmapped(const std::string& algorithm) {
  Member member(std::chrono::seconds(0), {});  // no deadline
  const std::size_t bytes = std::size_t{1} << 20;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (member.is_victim()) munmap(static_cast<std::byte*>(memory) + bytes / 2, bytes / 2);
  std::vector<std::byte> received(bytes);
  plait::Communicator& comm = member.comm();
  const int after = (member.rank() + 1) % comm.size(),
            before = (member.rank() + comm.size() - 1) % comm.size();
  const std::string what = outcome([&] {
    const plait::CallOptions options{.algorithm = algorithm};
    if (algorithm == "pull")
      comm.broadcast(memory, memory, bytes, plait::DataType::u8, victim, {}, options);
    else
      comm.send_recv(memory, bytes, after, received.data(), bytes, before, plait::DataType::u8, {},
                     options);
    comm.synchronize();
    for (;;) {  // a rank may be through before others find out
      if (auto broken = comm.async_error()) throw *std::move(broken);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  member.report(what);
}

void main_ended() {
  static Member member(std::chrono::seconds(10), {});
  std::thread([] {
    // The first thread has no memory any more once its process seems to be a zombie.
    for (std::string line; line.find(") Z") == std::string::npos;)
      std::getline(std::ifstream("/proc/self/stat"), line);
    plait::Communicator& comm = member.comm();
    std::vector<float> mine(30000, 1), all(3 * mine.size());
    const int after = (member.rank() + 1) % comm.size(),
              before = (member.rank() + comm.size() - 1) % comm.size();
    for (const std::string algorithm : {"pull", "pairwise_pull"})
      member.report(algorithm + ": " + outcome([&] {
                      const plait::CallOptions options{.algorithm = algorithm};
                      std::fill(all.begin(), all.end(), 0.0F);
                      if (algorithm == "pull")
                        comm.all_gather(mine.data(), all.data(), mine.size(), plait::DataType::f32,
                                        {}, options);
                      else
                        comm.send_recv(mine.data(), mine.size(), after, all.data(), mine.size(),
                                       before, plait::DataType::f32, {}, options);
                      comm.synchronize();
                      if (all[mine.size() - 1] != 1)
                        throw plait::Error(plait::ErrorCode::backend, "wrong data");
                    }));
    comm.bootstrap().barrier();
    std::_Exit(0);
  }).detach();
  pthread_exit(nullptr);
}

void creates() {
  for (int i = 0; i < 10; ++i) Member(std::chrono::seconds(5), {}).begin();
}

void growing(const std::string& how) {
  static_cast<void>(plait::test::stand_in_for_cuda<plait::test::GrowingBackend>());
  plait::Communicator comm = plait::make_communicator(
      MPI_COMM_WORLD, {.backend = plait::BackendKind::cuda,
                       .timeout = std::chrono::seconds(how == "stop" ? 1 : 0)});
  const int rank = comm.rank();
  const auto processes = comm.bootstrap().all_gather(getpid());
  std::vector<float> x(1000);
  const auto reduce = [&](const char* algorithm) {
    comm.all_reduce(std::span<const float>(x), std::span(x), plait::ReduceOp::sum, {},
                    {.algorithm = algorithm, .threads = 1});
    comm.synchronize();
  };
  reduce("oneshot_ll");
  comm.bootstrap().barrier();
  if (rank == victim)
    plait::test::GrowingBackend::before_reserve = [&](std::size_t) {
      std::raise(how == "stop" ? SIGSTOP : SIGKILL);
    };
  say(rank, outcome([&] { reduce("twoshot_ll128"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (rank != victim) kill(processes[static_cast<std::size_t>(victim)], SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  say(rank, "then " + outcome([&] { reduce("oneshot_ll"); }));
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::function<void()> in_idup;

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
      return plait::make_communicator(MPI_COMM_WORLD,
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
    plait::Communicator comm = create();
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

}  // namespace

// The library's calls come here.
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  if (in_idup) in_idup();
  return PMPI_Comm_idup(comm, copy, request);
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", algorithm = argc > 2 ? argv[2] : "";
  if (mode == "inside" && argc > 3) victim = std::stoi(argv[3]);
  if (mode == "killed") killed(algorithm, false);
  else if (mode == "all_killed") killed(algorithm, true);
  else if (mode == "stopped") stopped(algorithm, false);
  else if (mode == "inside") stopped_inside(algorithm);
  else if (mode == "late") stopped(algorithm, true);
  else if (mode == "gone") gone();
  else if (mode == "exits") exits();
  else if (mode == "forks") forks();
  else if (mode == "aborted") aborted(algorithm == "checked");
  else if (mode == "descriptors") descriptors();
  else if (mode == "memory") memory();
  else if (mode == "threads") threads();
  else if (mode == "creates") creates();
  else if (mode == "growing") growing(algorithm);
  else if (mode == "unmapped") unmapped(algorithm);
  else if (mode == "main_ended") main_ended();
  else if (mode == "setup" && argc > 4)
    return setup(algorithm, argv[3], static_cast<unsigned>(std::atoi(argv[4])));
  else return 2;
  return 0;
}
