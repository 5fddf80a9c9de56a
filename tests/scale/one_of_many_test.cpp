// One rank of a machine that nobody has: real set-up, real frames, and the memory that it takes.
// The other ranks are copies of what this one says of itself (ManyCopies), and the network is a
// mirror (mirror.cpp).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plait/plait.hpp"
#include "scale/mirror.hpp"

namespace plait {
namespace {

constexpr std::string_view node_name = "one of many nodes";

/// Rank 0 of many, each on a node of its own. Exchanges give what it says as said by all, but for
/// the number of the node and the rank of the listener.
class ManyCopies final : public Bootstrap {
 public:
  explicit ManyCopies(int ranks) : ranks_(ranks) {
    std::vector<int> nodes;
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank);
    set_nodes(nodes);
  }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return ranks_; }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    const std::string_view mine(static_cast<const char*>(in), bytes);
    const std::string_view handle(reinterpret_cast<const char*>(&mirror::magic),
                                  sizeof mirror::magic);
    const std::size_t named = mine.find(node_name), listens = mine.find(handle);
    for (int rank = 0; rank < ranks_; ++rank) {
      char* const copy = static_cast<char*>(out) + bytes * static_cast<std::size_t>(rank);
      std::memcpy(copy, in, bytes);
      if (named != mine.npos && ranks_ > 1)  // Nodes::Place
        std::memcpy(copy + named - sizeof rank, &rank, sizeof rank);
      if (listens != mine.npos)
        std::memcpy(copy + listens + offsetof(mirror::Handle, rank), &rank, sizeof rank);
    }
    if (ranks_ > 1) ++exchanges, received += bytes * static_cast<std::size_t>(ranks_);
  }
  void broadcast(void*, std::size_t, int) override { ++exchanges; }
  void barrier() override { ++exchanges; }
  std::unique_ptr<Bootstrap> split(int, int) override { return std::make_unique<ManyCopies>(1); }

  static inline int exchanges = 0;
  static inline std::size_t received = 0;

 private:
  int ranks_;
};

/// Kilobytes of this process: VmRSS now, VmHWM at the most, VmSize of addresses.
std::ptrdiff_t memory(std::string_view key) {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key)) return std::stol(line.substr(key.size() + 1));
  ADD_FAILURE() << "/proc/self/status has no " << key;
  return 0;
}
std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}
double processor_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& of) {
    return static_cast<double>(of.tv_sec) + static_cast<double>(of.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

class OneOfMany : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    plugin_ = program.parent_path().parent_path() / "lib" / "libnccl-net-plait-mirror.so";
    setenv("PLAIT_NODE", std::string(node_name).c_str(), 1);
    setenv("PLAIT_NET_PLUGIN", plugin_.c_str(), 1);
  }
  static Communicator make(int ranks) {
    return Communicator::create(std::make_unique<ManyCopies>(ranks),
                                {.backend = BackendKind::host});
  }
  static int connections() {
    void* const library = dlopen(plugin_.c_str(), RTLD_NOW);
    const auto count = reinterpret_cast<int (*)()>(dlsym(library, "plait_mirror_connections"));
    const int made = count();
    dlclose(library);
    return made;
  }
  static inline std::string plugin_;
};

/// The most that a rank takes, whatever the machine: docs/scaling.md.
constexpr std::ptrdiff_t most_kilobytes = 64 << 10;

TEST_P(OneOfMany, TakesLittle) {
  const int ranks = GetParam();
  std::ofstream("/proc/self/clear_refs") << 5;  // begins the peak anew
  const std::ptrdiff_t before = memory("VmRSS"), addresses = memory("VmSize");
  const double began = processor_seconds();
  ManyCopies::exchanges = 0, ManyCopies::received = 0;
  {
    const Communicator comm = make(ranks);
    const double took = processor_seconds() - began;
    const std::ptrdiff_t peak = memory("VmHWM") - before;
    const auto record = [](const char* name, auto value) {
      RecordProperty(name, static_cast<int>(value));
    };
    record("ranks", ranks);
    record("received_bytes_per_rank", ManyCopies::received / static_cast<std::size_t>(ranks));
    record("processor_milliseconds", took * 1e3);
    record("peak_kilobytes", peak);
    record("kilobytes", memory("VmRSS") - before);
    record("address_megabytes", (memory("VmSize") - addresses) >> 10);
    EXPECT_LE(ManyCopies::exchanges, 10);
    EXPECT_LE(ManyCopies::received, 800 * static_cast<std::size_t>(ranks));
    EXPECT_LE(peak, most_kilobytes);
    EXPECT_LE(took, 20e-6 * ranks + 1);
    EXPECT_LE(entries("/proc/self/fd"), 40);
    EXPECT_LE(entries("/proc/self/map_files"), 400);
  }
  EXPECT_LE(memory("VmHWM") - before, most_kilobytes) << "at the end";
}

INSTANTIATE_TEST_SUITE_P(, OneOfMany, testing::Values(10, 1000, 10'000, 100'000));

/// A call by recursive doubling connects a rank with as many others as the number of ranks has
/// bits, and takes memory for those.
TEST_F(OneOfMany, CallsFewOthers) {
  constexpr int ranks = 1 << 16;
  for (const char* algorithm : {"rails_doubling", "leaders_doubling"})
    for (const std::size_t count : {5u, 3000u, 200'000u}) {
      SCOPED_TRACE(testing::Message() << algorithm << ", " << count << " elements");
      const std::ptrdiff_t before = memory("VmRSS");
      const int connected = connections();
      Communicator comm = make(ranks);
      std::vector<std::uint32_t> mine(count), sum(count);
      for (int call = 0; call < 3; ++call) {
        std::uint32_t state = static_cast<std::uint32_t>(count) + static_cast<std::uint32_t>(call);
        for (std::uint32_t& value : mine) value = state = state * 747796405u + 2891336453u;
        comm.all_reduce(mine.data(), sum.data(), count, DataType::u32, ReduceOp::sum, {},
                        {.algorithm = algorithm});
        comm.synchronize();
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(sum[i], mine[i] * std::uint32_t{ranks}) << "element " << i;
      }
      constexpr int partners = std::bit_width(unsigned{ranks}) - 1;
      // One for frames with each, and one for chunks that travel alone.
      EXPECT_GE(connections() - connected, partners);
      EXPECT_LE(connections() - connected, 2 * partners);
      EXPECT_LE(memory("VmHWM") - before, most_kilobytes);
    }
}

}  // namespace
}  // namespace plait
