// The files that PLAIT_TRACE writes.
#include "communicator/observe/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "communicator/own_kernels/kernels.hpp"
#include "support/device_array.hpp"
#include "support/environment.hpp"
#include "support/host_log.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(JsonStrings, AreEscaped) {
  const std::string odd = "a \"quoted\" \\ \n\t\x01 é";
  EXPECT_EQ(json::parse(json_string(odd)).get<std::string>(), odd);
}

/// A folder for one test, removed with its files at the end.
class TraceOf : public testing::Test {
 protected:
  TraceOf() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TraceOf() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  json parse(const std::string& name) const {
    std::ifstream file(path(name));
    EXPECT_TRUE(file.good()) << path(name);
    const json whole = json::parse(file, nullptr, false);
    EXPECT_FALSE(whole.is_discarded()) << path(name) << " is no JSON";
    return whole.is_discarded() ? json::array() : whole.at("traceEvents");
  }
  /// Spans of one kind, in the file's order.
  static std::vector<json> spans(const json& events, const std::string& category) {
    std::vector<json> found;
    for (const json& event : events)
      if (event.at("ph") == "X" && event.at("cat") == category) found.push_back(event);
    return found;
  }
  static json communicator(const json& events, std::size_t index = 0) {
    for (const json& event : events)
      if (event.at("name") == "communicator" && index-- == 0) return event.at("args");
    ADD_FAILURE() << "no such communicator";
    return {};
  }
  static std::set<int> tracks(const std::vector<json>& events) {
    std::set<int> all;
    for (const json& event : events) all.insert(event.at("tid").get<int>());
    return all;
  }
  static double begin(const json& span) { return span.at("ts"); }
  static double end(const json& span) {
    return span.at("ts").get<double>() + span.at("dur").get<double>();
  }

  /// Kernels begin after their calls, and blocks lie in their kernels.
  static void expect_nested(const json& events) {
    std::map<int, double> called;
    for (const json& call : spans(events, "call")) called[call.at("args").at("call")] = begin(call);
    const auto kernels = spans(events, "kernel");
    double last = 0;
    for (const json& kernel : kernels) {
      EXPECT_GE(begin(kernel) + 1e-3, called.at(kernel.at("args").at("call")));
      EXPECT_GE(begin(kernel) + 1e-3, last) << "kernels run one after another";
      EXPECT_LT(kernel.at("dur"), 60e6);
      EXPECT_EQ(kernel.at("args").at("blocks"), kernel.at("args").at("blocks_seen"));
      last = end(kernel);
    }
    for (const json& block : spans(events, "block"))
      EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [&](const json& kernel) {
        return kernel.at("args").at("call") == block.at("args").at("call") &&
               kernel.at("name") == block.at("name") && begin(kernel) <= begin(block) + 1e-3 &&
               end(block) <= end(kernel) + 1e-3;
      })) << block;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("plait_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                  ::getpid());
};

void all_reduce(Communicator& comm, Arena& arena, const std::string& algorithm, unsigned blocks,
                StreamRef stream = {}) {
  void* data = arena.symmetric_send.device();
  comm.all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum, stream,
                  {.algorithm = algorithm, .blocks = blocks});
}

TEST_F(TraceOf, EachCallIsASpanOnTheHostAndOneOfEachBlock) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  run_ranks(2, [](Communicator& comm, int) {
    Arena arena(comm);
    for (int i = 0; i < 5; ++i) all_reduce(comm, arena, "oneshot_ll", 2);
    comm.barrier();
    all_reduce(comm, arena, "twoshot_ll", 3);
    comm.synchronize();
    comm.bootstrap().barrier();
  });
  for (const int rank : {0, 1}) {
    const json events = parse(fmt::format("t.rank{}.json", rank));
    const auto calls = spans(events, "call"), kernels = spans(events, "kernel"),
               blocks = spans(events, "block");
    ASSERT_EQ(calls.size(), 7u);
    ASSERT_EQ(kernels.size(), 7u);
    EXPECT_EQ(blocks.size(), 5 * 2 + 1 + 3u);
    for (std::size_t i = 0; i < 7; ++i) {
      const json& args = calls[i].at("args");
      EXPECT_EQ(calls[i].at("name"), i == 5 ? "barrier" : "all_reduce");
      EXPECT_EQ(calls[i].at("pid"), rank);
      EXPECT_EQ(args.at("call"), i + 1);
      EXPECT_EQ(args.at("algorithm"), i == 5 ? "barrier" : i == 6 ? "twoshot_ll" : "oneshot_ll");
      EXPECT_EQ(args.at("captured"), false);
      EXPECT_EQ(kernels[i].at("args").at("call"), i + 1);
      EXPECT_EQ(kernels[i].at("name"), args.at("algorithm"));
      EXPECT_EQ(kernels[i].at("args").at("blocks"), args.at("blocks"));
    }
    EXPECT_EQ(calls[0].at("args").at("count"), 1000);
    EXPECT_EQ(calls[0].at("args").at("type"), "f32");
    EXPECT_EQ(calls[0].at("args").at("op"), "sum");
    EXPECT_EQ(calls[0].at("args").at("symmetric"), true);
    EXPECT_EQ(tracks(blocks).size(), 3u);
    EXPECT_EQ(communicator(events).at("spans_overwritten"), 0);
    EXPECT_THAT(communicator(events).at("name").get<std::string>(),
                HasSubstr(fmt::format("rank {} of 2", rank)));
    expect_nested(events);
  }
}

TEST_F(TraceOf, EveryAlgorithm) {
  const int ranks = why_not(2).empty() ? 2 : 1;
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  std::size_t calls = 0;
  for (const std::string& algorithm : all_reduce_algorithms()) calls += algorithm.empty() ? 0 : 2;
  run_ranks(ranks, [](Communicator& comm, int) {
    Arena arena(comm);
    for (const std::string& algorithm : all_reduce_algorithms())
      for (int i = 0; i < 2; ++i) all_reduce(comm, arena, algorithm, 0);
    comm.synchronize();
    comm.bootstrap().barrier();
  });
  const json events = parse(ranks == 2 ? "t.rank0.json" : "t.json");
  EXPECT_EQ(spans(events, "call").size(), calls);
  std::set<int> seen;
  for (const json& kernel : spans(events, "kernel"))
    seen.insert(kernel.at("args").at("call").get<int>());
  EXPECT_EQ(seen.size(), calls);
  expect_nested(events);
}

TEST_F(TraceOf, ReplaysAreSpansOfTheCapturedCall) {
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  run_ranks(1, [](Communicator& comm, int) {
    Arena arena(comm);
    const DeviceScope device(backend_of(comm));
    Stream stream = comm.create_stream();
    const auto graph = captured(comm, stream, [&] {
      for (int i = 0; i < 2; ++i) all_reduce(comm, arena, "oneshot_ll", 2, stream);
    });
    for (int i = 0; i < 3; ++i) graph->launch(stream.native());
    comm.synchronize(stream);
  });
  const json events = parse("t.json");
  const auto calls = spans(events, "call"), kernels = spans(events, "kernel");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].at("args").at("captured"), true);
  ASSERT_EQ(kernels.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(kernels[i].at("args").at("call"), i % 2 + 1);
  EXPECT_EQ(spans(events, "block").size(), 12u);
  expect_nested(events);
}

TEST_F(TraceOf, OwnKernelsHaveTheirNames) {
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  run_ranks(1, [](Communicator& comm, int) {
    const auto to = comm.allocate<std::uint32_t>(1);
    launch_one(comm, to.data());
    comm.synchronize();
  });
  const json events = parse("t.json");
  const auto calls = spans(events, "call"), kernels = spans(events, "kernel");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_THAT(calls[0].at("name").get<std::string>(), testing::EndsWith("Store"));
  EXPECT_LT(calls[0].at("dur"), 1e6);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].at("name"), "own_kernel");
  expect_nested(events);
}

TEST_F(TraceOf, SeveralCommunicatorsShareAFile) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  const auto use = [](Communicator& comm, int calls) {
    Arena arena(comm);
    for (int i = 0; i < calls; ++i) all_reduce(comm, arena, "oneshot_ll", 1);
    comm.synchronize();
    comm.bootstrap().barrier();
  };
  run_ranks(2, [&](Communicator& comm, int rank) {
    Communicator alone = *comm.split(rank, 0);  // its only rank is 0
    use(alone, 3);
    use(comm, 2);
  });
  run_ranks(2, [&](Communicator& comm, int) { use(comm, 4); });
  EXPECT_FALSE(std::filesystem::exists(path("t.json")));
  for (const int rank : {0, 1}) {
    const json events = parse(fmt::format("t.rank{}.json", rank));
    const auto calls = spans(events, "call");
    EXPECT_EQ(calls.size(), 9u);
    EXPECT_EQ(spans(events, "kernel").size(), 9u);
    std::map<int, int> by_track;
    for (const json& call : calls) {
      ++by_track[call.at("tid").get<int>()];
      EXPECT_EQ(call.at("pid"), rank);
    }
    std::vector<int> counts;
    for (const auto& [track, count] : by_track) counts.push_back(count);
    EXPECT_THAT(counts, testing::UnorderedElementsAre(2, 3, 4));
    EXPECT_TRUE(communicator(events, 2).contains("name"));
  }
}

TEST_F(TraceOf, AFileThatAnotherProcessWritesIsLeftAlone) {
  // A lock belongs to the open file, so this one is as good as another process's.
  const int other = ::open(path("t.json").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  ASSERT_EQ(::write(other, "theirs", 6), 6);
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  run_ranks(1, [](Communicator& comm, int) {
    comm.barrier();
    comm.synchronize();
  });
  ::close(other);
  EXPECT_EQ(spans(parse(fmt::format("t.pid{}.json", ::getpid())), "call").size(), 1u);
  std::ifstream file(path("t.json"));
  std::string theirs;
  file >> theirs;
  EXPECT_EQ(theirs, "theirs");
}

TEST_F(TraceOf, AFileThatCannotBeWrittenIsAWarning) {
  const ScopedEnvironment trace("PLAIT_TRACE", path("nowhere/t.json"));
  testing::internal::CaptureStderr();
  run_ranks(1, [](Communicator& comm, int) {
    Arena arena(comm);
    EXPECT_TRUE(check(comm, arena, {.algorithm = {}, .count = 1000}));
    EXPECT_GT(comm.progress().completed, 0u);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("plait warn"), HasSubstr("nowhere/t.json")));
}

TEST_F(TraceOf, AFileThatCannotBeEmptiedIsAWarning) {
  const int memory = ::memfd_create("trace", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(::write(memory, "theirs", 6), 6);
  ASSERT_EQ(::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  testing::internal::CaptureStderr();
  ASSERT_NE(TraceFile::open(fmt::format("/proc/self/fd/{}", memory), 0, 1), nullptr);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the trace is not complete"));
  std::string kept(7, ' ');
  EXPECT_EQ(::pread(memory, kept.data(), kept.size(), 0), 6);
  EXPECT_EQ(kept, "theirs ");
  ::close(memory);
}

/// A FIFO without a reader among them: the call returns.
TEST_F(TraceOf, WhatIsNoRegularFileIsAWarning) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  for (const auto& [name, why] : {std::pair(path("fifo"), "fifo: it is a FIFO"),
                                  {path("."), "it is a directory"},
                                  {"/dev/full", "/dev/full: it is a device"}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(TraceFile::open(name, 0, 1), nullptr);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::AllOf(HasSubstr("plait warn"), HasSubstr(why)));
  }
}

/// Without SIGXFSZ, which would end the process.
TEST_F(TraceOf, ALimitOfFileSizesIsAWarningAndTheFileStaysWhole) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto file = TraceFile::open(path("t.json"), 0, 1);
  ASSERT_NE(file, nullptr);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  testing::internal::CaptureStderr();
  file->append(R"(,
{"name":"small"})");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  file->append(",\n\"" + std::string(4096, 'x') + '"');
  const std::string said = testing::internal::GetCapturedStderr();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(said, HasSubstr("the limit of a file's size (ulimit -f) is reached"));
  EXPECT_EQ(parse("t.json").back().at("name"), "small");
}

/// A communicator writes its events when it ends. Others may go on, or never come to their ends.
TEST_F(TraceOf, IsWholeBeforeItsCommunicatorsEnd) {
  const ScopedEnvironment trace("PLAIT_TRACE", path("t.json"));
  run_ranks(1, [&](Communicator& comm, int) {
    Arena arena(comm);
    for (std::size_t part = 0; part < 3; ++part) {
      EXPECT_EQ(spans(parse("t.json"), "call").size(), 2 * part);
      Communicator ends = comm.duplicate();
      for (Communicator* const one : {&comm, &ends, &ends})
        all_reduce(*one, arena, "oneshot_ll", 1);
      comm.synchronize();
      ends.synchronize();
    }
    EXPECT_EQ(spans(parse("t.json"), "kernel").size(), 6u);
  });
  EXPECT_EQ(spans(parse("t.json"), "call").size(), 9u);
}

TEST_F(TraceOf, LostSpansAreSaid) {
  WrittenLog written;
  written.run(1, span_ring + 50, 2);
  const auto file = TraceFile::open(path("t.json"), 0, 1);
  ASSERT_NE(file, nullptr);
  testing::internal::CaptureStderr();
  { const Trace trace(file, written.log(), "rank 0", {"ring"}, true); }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("100 spans"));
  const json events = parse("t.json");
  EXPECT_EQ(communicator(events).at("spans_overwritten"), 100);
  EXPECT_EQ(spans(events, "block").size(), 2u * span_ring);
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const json& event) {
    return event.at("ph") == "i" &&
           event.at("name").get<std::string>().find("100 spans") != std::string::npos;
  }));
}

}  // namespace
}  // namespace plait::test
