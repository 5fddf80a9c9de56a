// Children made by fork: they can't use what their parent has made, they can let go of it, and
// neither parent nor peers notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/process.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

/// A child that ends by itself, or is ended after a while. Returns in both, with 0 in the child.
pid_t fork_child() {
  const pid_t child = fork();
  if (child == 0) alarm(20);
  return child;
}

/// "status 3" or "signal 14".
std::string end_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "no child";
  return WIFEXITED(status) ? "status " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status));
}

/// The lines that `body` prints in a child, and how the child ended, if not well.
std::string said_in_child(const std::function<std::string()>& body,
                          const std::function<pid_t()>& make = fork_child) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = make();
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("threw: ") + error.what();
    }
    const auto written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  close(ends[0]);
  const std::string end = end_of(child);
  return end == "status 0" ? text : text + "; ended with " + end;
}

std::string error_text(const std::function<void()>& call) {
  const auto error = error_of(call);
  return error ? std::string(name_of(error->code())) + ": " + error->what() : "no error";
}

/// The host is the only target that a child can use as well.
CommunicatorOptions on_host() { return {.backend = BackendKind::host, .timeout = patience}; }

/// Ranks as threads, on the host target.
class Ranks {
 public:
  explicit Ranks(int count) : comms_(static_cast<std::size_t>(count)) {
    auto bootstraps = make_thread_bootstraps(count);
    run([&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      comms_[i] =
          std::make_unique<Communicator>(Communicator::create(std::move(bootstraps[i]), on_host()));
    });
  }
  ~Ranks() {
    run([&](int rank) { comms_[static_cast<std::size_t>(rank)].reset(); });
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Communicator& operator[](int rank) { return *comms_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<Communicator>& pointer(int rank) {
    return comms_[static_cast<std::size_t>(rank)];
  }
  int size() const { return static_cast<int>(comms_.size()); }
  void run(const std::function<void(int)>& body) { on_threads(size(), body); }

  /// Empty, or what was wrong with a row of calls.
  std::string work() {
    std::vector<std::string> wrong(comms_.size());
    run([&](int rank) {
      Communicator& comm = (*this)[rank];
      for (int i = 0; i < 20; ++i) {
        std::vector<int> x(300, rank + i);
        comm.all_reduce(std::span(x), std::span(x), ReduceOp::sum);
        comm.synchronize();
        const int expected = size() * i + size() * (size() - 1) / 2;
        for (const int value : x)
          if (value != expected)
            wrong[static_cast<std::size_t>(rank)] =
                std::to_string(value) + " instead of " + std::to_string(expected);
      }
      if (const auto error = comm.async_error())
        wrong[static_cast<std::size_t>(rank)] = error->what();
    });
    std::string all;
    for (const std::string& one : wrong) all += one;
    return all;
  }

 private:
  std::vector<std::unique_ptr<Communicator>> comms_;
};

TEST(Process, HasANumberOfItsOwn) {
  const auto number = std::to_string(process_number());
  EXPECT_EQ(std::to_string(process_number()), number);
  const auto in_child = [] {
    return std::to_string(process_number()) + " " +
           said_in_child([] { return std::to_string(process_number()); });
  };
  const std::string said = said_in_child(in_child);
  EXPECT_THAT(said, testing::Not(HasSubstr(number)));
  EXPECT_NE(said.substr(0, said.find(' ')), said.substr(said.find(' ') + 1));
  // Without the C library's knowledge.
  EXPECT_NE(said_in_child([] { return std::to_string(process_number()); },
                          [] { return static_cast<pid_t>(syscall(SYS_fork)); }),
            number);
}

TEST(Fork, CallsInAChildThrowAndTheParentGoesOn) {
  Ranks ranks(2);
  Buffer<int> buffer;
  ranks.run([&](int rank) {
    auto mine = ranks[rank].allocate<int>(8);
    if (rank == 0) buffer = mine;
  });
  const Stream stream = ranks[0].create_stream();
  std::vector<int> x(8, 1);
  const std::vector<std::size_t> one{1, 1}, at{0, 1};
  Communicator& comm = ranks[0];
  constexpr auto i32 = DataType::i32;
  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"all_reduce", [&] { comm.all_reduce(x.data(), x.data(), 8, i32, ReduceOp::sum); }},
      {"all_reduce", [&] { comm.all_reduce(buffer.span(), buffer.span(), ReduceOp::sum, stream); }},
      {"all_gather", [&] { comm.all_gather(x.data(), buffer.data(), 4, i32); }},
      {"broadcast", [&] { comm.broadcast(x.data(), x.data(), 8, i32, 0); }},
      {"barrier", [&] { comm.barrier(); }},
      {"send", [&] { comm.send(x.data(), 8, i32, 1); }},
      {"recv", [&] { comm.recv(x.data(), 8, i32, 1); }},
      {"send_recv", [&] { comm.send_recv(x.data(), 4, 1, x.data() + 4, 4, 1, i32); }},
      {"all_to_all_v",
       [&] {
         comm.all_to_all_v(x.data(), {one, at}, buffer.data(), {one, at}, i32);
       }},
      {"allocate", [&] { static_cast<void>(comm.allocate<int>(8)); }},
      {"split", [&] { static_cast<void>(comm.split(0, 0)); }},
      {"duplicate", [&] { static_cast<void>(comm.duplicate()); }},
      {"synchronize", [&] { comm.synchronize(); }},
      {"copy", [&] { comm.copy(x.data(), buffer.data(), 4); }},
      {"async_error", [&] { static_cast<void>(comm.async_error()); }},
      {"abort", [&] { comm.abort("a child"); }},
      {"progress", [&] { static_cast<void>(comm.progress()); }},
      {"statistics", [&] { static_cast<void>(comm.statistics()); }},
      {"create_stream", [&] { static_cast<void>(comm.create_stream()); }},
      {"bootstrap", [&] { comm.bootstrap().barrier(); }},
      {"is_symmetric", [&] { static_cast<void>(comm.is_symmetric(x.data(), 4)); }}};
  for (const auto& [name, call] : calls) {
    const std::string said = said_in_child([&, &call = call] { return error_text(call); });
    EXPECT_THAT(said, testing::StartsWith("invalid_argument: " + name +
                                          ": this communicator belongs to process " +
                                          std::to_string(getpid())));
    EXPECT_THAT(said, testing::Not(HasSubstr("ended with")));
  }
  EXPECT_EQ(said_in_child(
                [&] { return std::to_string(comm.rank()) + " of " + std::to_string(comm.size()); }),
            "0 of 2");
  // Also where the C library does not know of the child.
  EXPECT_THAT(said_in_child([&] { return error_text([&] { comm.barrier(); }); },
                            [] { return static_cast<pid_t>(syscall(SYS_fork)); }),
              HasSubstr("this communicator belongs to process"));
  EXPECT_EQ(ranks.work(), "");
}

/// While ranks are in calls and in the bootstrap, so that locks are held and waited for.
TEST(Fork, AChildLetsGoOfAll) {
  Ranks ranks(3);
  DeviceGroup group({0, 1}, {.backend = BackendKind::host, .timeout = patience});
  auto group_buffers = std::make_unique<std::vector<Buffer<int>>>(group.allocate<int>(8));
  std::vector<std::optional<Buffer<int>>> buffers(3);
  ranks.run(
      [&](int rank) { buffers[static_cast<std::size_t>(rank)] = ranks[rank].allocate<int>(8); });
  std::optional<Stream> stream(ranks[0].create_stream());
  auto bootstraps = make_thread_bootstraps(2);
  std::thread waiting([&] { bootstraps[1]->barrier(); });
  std::thread working([&] {
    ranks.run([&](int rank) {
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ranks[rank].barrier();
      ranks[rank].synchronize();
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto let_go = [&] {
    const std::string group_says = error_text([&] { group.barrier(); });
    const std::string bootstrap_says = error_text([&] { bootstraps[0]->barrier(); });
    buffers.clear();
    stream.reset();
    for (int rank = 0; rank < 3; ++rank) ranks.pointer(rank).reset();
    group_buffers.reset();
    { const DeviceGroup gone = std::move(group); }
    bootstraps.clear();
    return group_says + "\n" + bootstrap_says;
  };
  const std::string said = said_in_child(let_go);
  EXPECT_THAT(said, HasSubstr("invalid_argument: barrier: this device group belongs to process"));
  EXPECT_THAT(said,
              HasSubstr("invalid_argument: Bootstrap::barrier: this bootstrap belongs to process"));
  EXPECT_THAT(said, testing::Not(HasSubstr("ended with")));
  working.join();
  bootstraps[0]->barrier();
  waiting.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // the monitor has looked
  EXPECT_EQ(ranks.work(), "");
  group.barrier();
  group.synchronize();
}

/// By assignment, too.
TEST(Fork, AChildReplacesWhatItHas) {
  Ranks parents(1);
  const std::string said = said_in_child([&] {
    parents[0] = Communicator::create(std::move(make_thread_bootstraps(1)[0]), on_host());
    parents[0].barrier();
    parents[0].synchronize();
    return std::string("done");
  });
  EXPECT_EQ(said, "done");
  EXPECT_EQ(parents.work(), "");
}

TEST(Fork, AChildMakesCommunicatorsOfItsOwn) {
  const auto own = [] {
    Ranks mine(3);
    std::string wrong = mine.work();
    // The monitor works here, too.
    Ranks ending(2);
    ending[0].abort("enough");
    wrong += error_text([&] {
      for (;;) {
        if (const auto error = ending[1].async_error()) throw Error(*error);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    return wrong;
  };
  const std::string right = "aborted: rank 0 has aborted the communicator: enough";
  EXPECT_EQ(said_in_child(own), right);
  Ranks ranks(3);
  EXPECT_EQ(ranks.work(), "");
  EXPECT_EQ(said_in_child(own), right);
  // From a thread whose device the ranks of the parent have.
  ranks.run([&](int rank) {
    if (rank == 1) {
      EXPECT_EQ(said_in_child(own), right);
    }
  });
  EXPECT_EQ(said_in_child([&] { return said_in_child(own); }), right);
  EXPECT_EQ(ranks.work(), "");
}

TEST(Fork, AChildHasNoPartInAGroup) {
  Ranks ranks(1);
  std::vector<int> x(8, 1);
  group_start();
  ranks[0].all_reduce(std::span(x), std::span(x), ReduceOp::sum);
  EXPECT_THAT(said_in_child([] { return error_text(group_end); }),
              HasSubstr("invalid_argument: group_end: the group was started in"));
  EXPECT_EQ(said_in_child([] {
              return error_text([] {
                group_start();
                group_end();
              });
            }),
            "no error");
  group_end();
  {
    auto group = std::make_unique<Group>();
    ranks[0].all_reduce(std::span(x), std::span(x), ReduceOp::sum);
    EXPECT_EQ(said_in_child([&] { return error_text([&] { group.reset(); }); }), "no error");
  }
  ranks[0].synchronize();
  EXPECT_EQ(ranks[0].statistics().calls, 2u);
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST(Fork, AChildWritesATraceOfItsOwn) {
  char folder[] = "/tmp/plait-fork-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  {
    const ScopedEnvironment trace("PLAIT_TRACE", std::string(folder) + "/trace.json");
    Ranks ranks(1);
    EXPECT_EQ(ranks.work(), "");
    EXPECT_EQ(said_in_child([&] {
                ranks.pointer(0).reset();
                return Ranks(1).work();
              }),
              "");
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(occurrences(text, R"("name":"communicator")"), 1u) << names.back();
    EXPECT_EQ(occurrences(text, R"("cat":"call")"), 20u) << names.back();
    EXPECT_TRUE(text.ends_with("\n]}\n")) << names.back();
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "trace.json", testing::ContainsRegex("^trace\\.pid[0-9]+\\.json$")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plait::test
