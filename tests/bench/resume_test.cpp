// A run that goes on: results of an earlier file are taken over if they are of the same
// measurements, and a file is never left half written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/files.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

using testing::HasSubstr;

/// A file in a folder that is gone with it.
class File {
 public:
  File() {
    std::string folder = testing::TempDir() + "plait-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~File() { std::filesystem::remove_all(folder_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return folder_ / "results.json"; }
  std::filesystem::path folder() const { return folder_; }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  auto files() const { return std::distance(std::filesystem::directory_iterator(folder_), {}); }

 private:
  std::filesystem::path folder_;
};

Machine machine() {
  Machine machine;
  machine.backend = "host";
  machine.ranks = machine.devices = {"CPU", "CPU"};
  machine.version = "1.2.3";
  machine.settings = "-n 3";
  return machine;
}

Result result_of(const std::string& name, std::size_t count) {
  Result result;
  result.name = name;
  result.call = {.collective = Collective::all_reduce, .type = DataType::f32, .count = count};
  result.ranks = 2;
  return result;
}
Result measured(const std::string& name, std::size_t count) {
  Result result = result_of(name, count);
  result.times = Times({3, 1, 2});
  result.calls = 20;
  result.wrong = 4;
  return result;
}
std::vector<Result> planned() {
  return {result_of("ring", 256), result_of("ring", 1024), result_of("twoshot", 256)};
}

std::string why_refused(const std::string& text, const Machine& machine,
                        const std::vector<Result>& planned) {
  try {
    take_over(text, "results.json", machine, planned);
    return "taken over";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

TEST(Resume, TakesOverWhatIsThereAndWritesItAsItWas) {
  const File file;
  write_json(file.path(), machine(), {measured("twoshot", 256), measured("ring", 256)});
  const std::string text = file.text();
  const auto results = take_over(text, file.path(), machine(), planned());
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].name, "twoshot");
  EXPECT_EQ(results[0].bytes(), 1024u);
  EXPECT_EQ(results[0].time_us(), 2);
  EXPECT_EQ(results[0].wrong, 4u);
  EXPECT_EQ(results[0].calls, 20);
  write_json(file.path(), machine(), results);
  EXPECT_EQ(file.text(), text);
}

TEST(Resume, StartsWhereNothingIsThere) {
  const File file;
  EXPECT_EQ(read_earlier(file.path()), "");
  check_writable(file.path());
  EXPECT_TRUE(std::filesystem::exists(file.path()));
  EXPECT_EQ(read_earlier(file.path()), "");
  EXPECT_TRUE(take_over("", file.path(), machine(), planned()).empty());
  write_text(file.path(), "some text\n");
  EXPECT_EQ(read_earlier(file.path()), "some text\n");
}

TEST(Resume, RefusesOtherMachinesSettingsAndMeasurements) {
  const File file;
  write_json(file.path(), machine(), {measured("ring", 256)});
  const std::string text = file.text();
  EXPECT_EQ(why_refused(text, machine(), planned()), "taken over");

  Machine other = machine();
  other.settings = "-n 4";
  EXPECT_THAT(why_refused(text, other, planned()),
              HasSubstr(R"("results.json": it was measured with settings "-n 3", and this run has )"
                        R"("-n 4")"));
  for (const auto change :
       {+[](Machine& it) { it.backend = "cuda"; }, +[](Machine& it) { it.devices[1] = "GPU"; },
        +[](Machine& it) { it.ranks.emplace_back("CPU"); }, +[](Machine& it) { it.nodes = 2; },
        +[](Machine& it) { it.version = "1.2.4"; }, +[](Machine& it) { it.nccl_version = "2"; },
        +[](Machine& it) { it.mpi_version = "MPI"; }}) {
    other = machine();
    change(other);
    EXPECT_THAT(why_refused(text, other, planned()), HasSubstr("it was measured with "));
  }
  EXPECT_THAT(why_refused(text, machine(), {result_of("ring", 1024)}),
              HasSubstr("this run does not measure name ring, collective all_reduce"));
  Result elsewhere = result_of("ring", 256);
  elsewhere.memory = Memory::symmetric;
  EXPECT_THAT(why_refused(text, machine(), {elsewhere}), HasSubstr("this run does not measure"));
}

TEST(Resume, RefusesWhatIsNoWholeFile) {
  const File file;
  write_json(file.path(), machine(), {measured("ring", 256)});
  const std::string text = file.text();
  auto json = nlohmann::ordered_json::parse(text);
  json["results"][0]["time_us"] = 0;
  const std::string timeless = json.dump();
  json["results"][0].erase("time_us");
  for (const std::string& broken :
       {text.substr(0, text.size() / 2), std::string("[]"), std::string("{}"), std::string("7"),
        std::string(R"({"machine": 3, "results": []})"), timeless, json.dump()})
    EXPECT_THAT(why_refused(broken, machine(), planned()), HasSubstr("it is no whole file of"))
        << broken;
  EXPECT_THROW(read_earlier("/dev/null"), Error);
  EXPECT_THROW(read_earlier(file.folder().string()), Error);
}

/// Writes more than this program may write. SIGXFSZ ends the program in the middle of it, if `end`
/// says so.
[[noreturn]] void write_too_much(const File& file, bool end) {
  const rlimit least{.rlim_cur = 64, .rlim_max = 64};
  ::setrlimit(RLIMIT_FSIZE, &least);
  std::signal(SIGXFSZ, end ? SIG_DFL : SIG_IGN);
  try {
    write_text(file.path(), std::string(1 << 20, 'n'));
  } catch (const Error&) {
    std::_Exit(file.files() == 1 ? 7 : 8);
  }
  std::_Exit(9);
}

TEST(WriteText, KeepsTheOldTextUntilTheNewOneIsWhole) {
  const File file;
  write_text(file.path(), "old");
  EXPECT_EXIT(write_too_much(file, true), testing::KilledBySignal(SIGXFSZ), "");
  EXPECT_EQ(file.text(), "old");
  write_text(file.path(), "new");
  EXPECT_EQ(file.text(), "new");
  EXPECT_EQ(file.files(), 1);
}

TEST(WriteText, LeavesNothingBesideAFileThatCannotGrow) {
  const File file;
  write_text(file.path(), "old");
  EXPECT_EXIT(write_too_much(file, false), testing::ExitedWithCode(7), "");
  EXPECT_EQ(file.text(), "old");
}

TEST(WriteText, FollowsALinkAndKeepsIt) {
  const File file;
  const auto link = file.folder() / "link";
  write_text(file.path(), "old");
  std::filesystem::create_symlink("results.json", link);
  write_text(link, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(file.text(), "new");
}

}  // namespace
}  // namespace plait::bench
