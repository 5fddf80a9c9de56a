// Tuning files: how their rules are read, and what they say to the selection.
#include "communicator/selection/tuning_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "communicator/selection/selection.hpp"
#include "plait/error.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/every_algorithm.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

Topology topology(int ranks, std::string architecture) {
  Topology result;
  result.backend = BackendKind::cuda;
  result.ranks = ranks;
  result.architecture = std::move(architecture);
  result.max_block_threads = 64;
  return result;
}

RuleList read(const std::string& text, const Topology& of = topology(4, "sm_90")) {
  return tuning_rules({"some.file", text}, of);
}

enum class Kind { ordinary, in, out };
Call call_of(std::size_t bytes, Kind kind = Kind::ordinary,
             Collective collective = Collective::all_reduce) {
  Call call{.collective = collective, .type = DataType::u8, .count = bytes};
  call.symmetric = kind != Kind::ordinary;
  call.in_place = kind == Kind::in;
  return call;
}

std::string matched(const RuleList& rules, const Call& call) {
  const Rule* rule = rules.match(call);
  return rule == nullptr ? "" : rule->algorithm;
}

TEST(TuningFile, HasRulesInLinesAndComments) {
  const RuleList rules = read(
      "# measured\n0-1K=oneshot_ll; 1K-2K=ring  # small\n\nbroadcast: chain\nall_reduce: "
      "2K-=twoshot");
  EXPECT_EQ(matched(rules, call_of(1023)), "oneshot_ll");
  EXPECT_EQ(matched(rules, call_of(1024)), "ring");
  EXPECT_EQ(matched(rules, call_of(2048)), "twoshot");
  EXPECT_EQ(matched(rules, call_of(5, Kind::ordinary, Collective::broadcast)), "chain");
}

/// Rules of sections for numbers of ranks and nodes, for targets and architectures.
TEST(TuningFile, HasSections) {
  struct Row {
    int ranks;
    BackendKind target;
    const char *architecture, *algorithm;
    std::size_t bytes = 1;
    Collective collective = Collective::all_reduce;
    int nodes = 1;
  };
  const auto expect = [](const char* text, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      Topology other = topology(row.ranks, row.architecture);
      other.backend = row.target;
      other.nodes = row.nodes;
      EXPECT_EQ(matched(read(text, other), call_of(row.bytes, Kind::ordinary, row.collective)),
                row.algorithm)
          << row.ranks << " ranks on " << name_of(row.target) << ", " << row.architecture << ", "
          << row.nodes << " nodes, " << row.bytes << " bytes";
    }
  };
  constexpr auto host = BackendKind::host, cuda = BackendKind::cuda, hip = BackendKind::hip;
  expect(
      "0-1K=oneshot_ll\nbroadcast: chain\n [ 4 ranks ]\n1K-2K=ring\n[4 ranks on gfx942]\n"
      "2K-=tree\n[1 rank on sm_90]\n2K-=stream\n[4 ranks on sm_90]\n2K-=twoshot\n",
      {{4, cuda, "sm_90", "oneshot_ll"},
       {1, cuda, "sm_90", "oneshot_ll"},
       {4, cuda, "gfx942", "oneshot_ll"},
       {4, cuda, "sm_90", "ring", 1024},  // a section begins with all_reduce again
       {1, cuda, "sm_90", "", 1024},
       {4, cuda, "sm_90", "twoshot", 2048},
       {1, cuda, "sm_90", "stream", 2048},
       {4, cuda, "gfx942", "tree", 2048}});
  expect(
      "[3 or more ranks]\nring\n[2 ranks on host]\ntree\n[5 or more ranks on cuda]\nbroadcast: "
      "chain",
      {{2, host, "any", "tree"},
       {2, cuda, "any", ""},
       {3, host, "any", "ring"},
       {8, cuda, "any", "ring"},
       {4, cuda, "any", "", 5, Collective::broadcast},
       {5, cuda, "any", "chain", 5, Collective::broadcast},
       {5, hip, "any", "", 5, Collective::broadcast}});
  constexpr auto sum = Collective::all_reduce;
  expect("[3 to 5 ranks on host]\nring\n[2 to 8 nodes]\ntree",
         {{2, host, "any", ""},
          {3, host, "any", "ring"},
          {5, host, "any", "ring"},
          {6, host, "any", ""},
          {4, host, "any", "tree", 1, sum, 2},
          {64, host, "any", "tree", 1, sum, 8},
          {64, host, "any", "", 1, sum, 9}});
}

TEST(TuningFile, IsRefusedWithWhatIsWrong) {
  const auto refused = [](const std::string& text, const char* what) {
    expect_invalid([&] { read(text); }, "PLAIT_TUNING=\"some.file\"", what);
  };
  refused("[4]\nring",
          "in \"[4]\": not of the form [4 ranks], [3 or more ranks], [4 ranks on sm_90] or [2 to "
          "8 nodes]");
  refused("[0 ranks]", "[0 ranks]");
  refused("[4 ranks on]", "[4 ranks on]");
  refused("[4 ranks on a b]", "[4 ranks on a b]");
  refused("[4 or ranks]", "[4 or ranks]");
  refused("[4 or more]", "[4 or more]");
  refused("[4 to ranks]", "[4 to ranks]");
  refused("[4 to 3 ranks]", "[4 to 3 ranks]");
  refused("[4 to 8 or more ranks]", "[4 to 8 or more ranks]");
  refused("ring [4 ranks]", "ring [4 ranks]");
  refused("[4 ranks\nring", "[4 ranks");
  refused("0-1K=nonsense", "unknown algorithm \"nonsense\"");
  refused("[7 ranks]\n0-1K=nonsense",
          "unknown algorithm \"nonsense\"");  // though it is not for these
  for (const auto& [old, successor] : {std::pair("flash_bulk", "flash"),
                                       {"twoshot_ll16", "twoshot_ll128"},
                                       {"twoshot_push", "stream"}})
    refused(
        fmt::format("0-1K={}", old),
        fmt::format("in \"0-1K={0}\": there is no algorithm \"{0}\" any more: {1} has taken its "
                    "place",
                    old, successor)
            .c_str());
}

/// The time and the stack that a line takes grow with its length alone.
TEST(TuningFile, HasLinesOfAnyLengthAndErrorsShowTheirEnds) {
  const std::size_t million = 1'000'000;
  EXPECT_EQ(matched(read("# " + std::string(million, '[') + "\nring"), call_of(1)), "ring");
  EXPECT_EQ(matched(read("[" + std::string(million, ' ') + "4 ranks]\nring"), call_of(1)), "ring");
  for (const std::string& line :
       {"[4 ranks on " + std::string(million, 'x'), "[4" + std::string(million, '[') + " ranks]",
        "[" + std::string(million, '4') + " ranks]", std::string(million, 'r')}) {
    const auto error = error_of([&] { read(line); });
    expect_error(error, ErrorCode::invalid_argument,
                 HasSubstr("in \"" + line.substr(0, 140) + "..."));
    EXPECT_LT(std::string(error->what()).size(), 2000u);
  }
}

TEST(TuningFile, MayComeFromWindows) {
  const RuleList rules = read(
      "\xef\xbb\xbf# measured\r\n0-1K=oneshot_ll; 1K-2K ordinary =\tring \r\n\r\n[4 ranks on "
      "sm_90]\r\n2K-=twoshot\r\n");
  EXPECT_EQ(matched(rules, call_of(1)), "oneshot_ll");
  EXPECT_EQ(matched(rules, call_of(1024)), "ring");
  EXPECT_EQ(matched(rules, call_of(2048)), "twoshot");
}

TEST(TuningFile, ErrorsShowWhatIsInvisible) {
  const auto refused = [](const std::string& text, const char* shown) {
    expect_invalid([&] { read(text); }, shown);
  };
  refused("ring\x01", R"(in "ring\x01")");
  refused("ring\xc2\xa0", R"(in "ring\u00a0")");      // a space that is none
  refused("ri\xe2\x80\x8bng", R"(in "ri\u200bng")");  // of no width
  refused("[4 ranks]\x1b[2J", R"(in "[4 ranks]\x1b[2J")");
  refused("ring\xff", R"(in "ring\xff")");
  refused(std::string("ring\0", 5), R"(in "ring\x00")");
  refused("\"ring\"", R"(in "\"ring\"")");
  refused("r\xc3\xafng", "in \"r\xc3\xafng\"");  // an i with two dots is seen
}

TEST(TuningFile, RulesAreForSymmetricOrOrdinaryMemory) {
  const RuleList rules = read("0-1K ordinary=stream; in=flash; 0-2K symmetric=twoshot; ring");
  EXPECT_EQ(matched(rules, call_of(1)), "stream");
  EXPECT_EQ(matched(rules, call_of(1, Kind::in)), "flash");
  EXPECT_EQ(matched(rules, call_of(1, Kind::out)), "twoshot");
  EXPECT_EQ(matched(rules, call_of(1024)), "ring");
  EXPECT_EQ(matched(rules, call_of(2048, Kind::out)), "ring");
}

TEST(TuningFile, StandsBetweenPlaitAlgoAndTheBuiltInTable) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-100=ring");
  Topology four = topology(4, "sm_90");
  four.peer_access = true;
  four.scratch_limit = std::size_t{1} << 28;
  four.max_block_threads = 1024;
  const Selector selector(four, every_algorithm(), 0, read("0-1K=recursive_doubling"));
  EXPECT_EQ(selector.choose(call_of(99), {}).rule, "PLAIT_ALGO");
  EXPECT_EQ(selector.choose(call_of(100), {}).rule, "PLAIT_TUNING");
  EXPECT_EQ(selector.choose(call_of(100), {}).algorithm->name(), "recursive_doubling");
  EXPECT_EQ(selector.choose(call_of(1024), {}).rule, "built-in table");
}

/// Times are no rules: they are read where the communicator is known.
TEST(TuningFile, MayHaveTimesInstead) {
  const TuningFile file{"some.file", "plait-times 1\nfor a machine\nend\n"};
  EXPECT_TRUE(file.has_times());
  EXPECT_TRUE(tuning_rules(file, topology(4, "sm_90")).empty());
  EXPECT_FALSE((TuningFile{"some.file", "ring"}.has_times()));
}

TEST(TuningFile, IsReadWhereTheVariableSays) {
  const std::filesystem::path path = testing::TempDir() + "plait_tuning_test";
  const ScopedEnvironment environment("PLAIT_TUNING", path.string());
  std::filesystem::remove(path);
  const auto refused = [&](const char* why) {
    expect_invalid([] { load_tuning_file(); }, "PLAIT_TUNING=\"" + path.string() + "\"", why);
  };
  refused("No such file");
  std::ofstream(path).close();
  refused("empty");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  refused("it is a directory, not a regular file");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  refused("it is a FIFO, not a regular file");  // and nothing waits for its writer
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  refused("it is a device, not a regular file");
  std::filesystem::remove(path);
  std::ofstream(path) << std::string((1 << 20) + 1, '\n');
  refused("the file has more than 1M");
  std::ofstream(path) << "0-1K=ring\n";
  const auto file = load_tuning_file();
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->path, path);
  EXPECT_EQ(file->text, "0-1K=ring\n");
  const ScopedEnvironment none("PLAIT_TUNING", "");
  EXPECT_FALSE(load_tuning_file().has_value());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace plait::test
