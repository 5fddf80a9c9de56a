// Chunks between nodes in device memory, through a network plug-in that reaches it. No GPU is
// needed: the host target stands in for CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "communicator/one_sided.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/pretend_nodes.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "transport/plugin/net_interface.hpp"
#include "transport/test_plugin_files.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace transport::net_interface;

/// Copies that this thread makes are not held up.
thread_local bool is_quick = true;

/// Its memory counts as a GPU's.
class Reachable final : public HostAsCuda {
 public:
  explicit Reachable(int ordinal) : HostAsCuda(ordinal, "reachable" + std::to_string(ordinal)) {
    info_.facts.peer_access = true;
  }
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    if (!is_quick)
      host_call(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
    ForwardingBackend::copy(to, from, bytes, stream);
  }
  void enter() override { is_quick = false; }  // the proxy's thread
  /// A file of that size.
  DmaBuf export_dma_buf(void*, std::size_t bytes) override {
    DmaBuf buffer{.descriptor = UniqueFd(memfd_create("device memory", MFD_CLOEXEC)),
                  .offset = 4096};
    EXPECT_EQ(ftruncate(buffer.descriptor.get(), static_cast<off_t>(buffer.offset + bytes)), 0);
    return buffer;
  }
};
const BackendRegistration registration = stand_in_for_cuda<Reachable>();

constexpr const char* in_device_memory = "from device memory";

class GpuDirect : public testing::TestWithParam<std::vector<int>> {
 protected:
  using Scoped = PluginFaults::Scoped;

  void run(const std::function<void(Communicator&, Arena&)>& body) {
    run_on_nodes(GetParam(), {.backend = BackendKind::cuda}, std::size_t{8} << 20, body);
  }
  /// Checks algorithms with small, medium and large messages.
  static void check_all(Communicator& comm, Arena& arena) {
    constexpr std::size_t many = under_tsan ? 30'011 : 300'007;
    for (const Subject& subject : all_algorithms())
      for (const std::size_t count : {std::size_t{1}, std::size_t{5000}, many})
        if (!check(comm, arena, subject.of({.type = DataType::i32, .count = count}))) return;
  }
  /// Results are right, and chunks lie in host memory.
  void expect_host_memory() {
    const int flushes = faults.get("flushes"), sends = faults.get("device_sends");
    run([](Communicator& comm, Arena& arena) {
      EXPECT_THAT(comm.describe(), Not(HasSubstr(in_device_memory)));
      check(comm, arena, {.algorithm = "rails", .type = DataType::i32, .count = 300'007});
    });
    EXPECT_EQ(faults.get("flushes"), flushes);
    EXPECT_EQ(faults.get("device_sends"), sends);
  }
  void expect_refusal(const std::string& words) {
    const std::vector<int>& nodes = GetParam();
    const int ranks = static_cast<int>(nodes.size());
    with_bootstraps(ranks, [&](std::unique_ptr<Bootstrap> bootstrap, int) {
      auto on_node = std::make_unique<PretendNodes>(std::move(bootstrap), nodes);
      expect_throws(
          ErrorCode::unsupported,
          [&] {
            Communicator::create(std::move(on_node), test_options({.backend = BackendKind::cuda}));
          },
          words);
    });
  }

  PluginFaults faults{"plait-test"};
  ScopedEnvironment plugin{"PLAIT_NET_PLUGIN", test_plugin("plait-test")};
};

TEST_P(GpuDirect, EveryAlgorithmGivesExactResults) {
  const Scoped reaches(faults, "pointers", host_pointers | device_pointers);
  const int flushes = faults.get("flushes"), sends = faults.get("device_sends");
  run([](Communicator& comm, Arena& arena) {
    EXPECT_THAT(comm.describe(), HasSubstr(in_device_memory));
    check_all(comm, arena);
  });
  EXPECT_GT(faults.get("device_sends"), sends + 100);
  EXPECT_EQ(faults.get("flushes") - flushes, faults.get("device_sends") - sends);
  EXPECT_EQ(faults.get("registrations"), 0);
}

TEST_P(GpuDirect, GraphsAreReplayedAndCallsFollowOneAnother) {
  const Scoped reaches(faults, "pointers", host_pointers | device_pointers);
  run([](Communicator& comm, Arena& arena) {
    // Some of them in host memory, through the same channels.
    for (const std::size_t count : {100, 100'000, 7, 50'000})
      check(comm, arena,
            {.algorithm = "rails", .type = DataType::i64, .count = count, .way = Way::captured});
    for (const char* const algorithm : {"ring", "stream"})
      check_repeated_in_place(comm, arena, 60'000, 20, {.algorithm = algorithm});
  });
}

TEST_P(GpuDirect, MemoryMayBeRegisteredByDmaBufs) {
  const Scoped reaches(faults, "pointers", host_pointers | dmabuf_pointers);
  const int dma_bufs = faults.get("dma_bufs"), sends = faults.get("device_sends");
  run([](Communicator& comm, Arena& arena) {
    EXPECT_THAT(comm.describe(), HasSubstr(in_device_memory));
    check(comm, arena, {.algorithm = "rails", .type = DataType::i32, .count = 300'007});
  });
  EXPECT_GT(faults.get("dma_bufs"), dma_bufs);
  EXPECT_GT(faults.get("device_sends"), sends);
}

TEST_P(GpuDirect, HostMemoryServesAllIfOneRankCanNotRegister) {
  const Scoped reaches(faults, "pointers", host_pointers | device_pointers);
  {
    const Scoped fails(faults, "fail_device_register", 1);
    expect_host_memory();
  }
  const ScopedEnvironment must("PLAIT_NET_GDR", "1");
  const Scoped fails(faults, "fail_device_register", 1);
  expect_refusal("registering device memory: network plug-in");
}

TEST_P(GpuDirect, CanBeSwitchedOff) {
  const Scoped reaches(faults, "pointers", host_pointers | device_pointers);
  const ScopedEnvironment off("PLAIT_NET_GDR", "0");
  expect_host_memory();
}

TEST_P(GpuDirect, NeedsATransportThatReachesDeviceMemory) {
  expect_host_memory();
  const ScopedEnvironment must("PLAIT_NET_GDR", "1");
  expect_refusal("over loopback does not reach device memory");
}

/// One-sided calls: their servers copy on streams, as on GPUs.
TEST_P(GpuDirect, ServersCopyOnStreams) {
  run([](Communicator& comm, Arena&) {
    Peer own(comm);
    const int n = comm.size(), next = (comm.rank() + 1) % n, last = (comm.rank() + n - 1) % n;
    std::uint64_t seed = 0;
    for (const std::size_t bytes : {1, 5000, 300'001})
      for (const bool signals : {true, false}) {
        own.fill(own.own(), ++seed, comm.rank(), bytes);
        comm.put(own.window(), next, own.offset(comm.rank()), own.own(), bytes, signals);
        if (signals) comm.wait_signal(last);
        else comm.barrier();
        EXPECT_TRUE(own.holds(own.at(last), seed, last, bytes));
        comm.get(own.window(), next, own.offset(comm.rank()), own.own() + bytes, bytes);
        EXPECT_TRUE(own.holds(own.own() + bytes, seed, comm.rank(), bytes));
        comm.barrier();
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Nodes, GpuDirect,
                         testing::Values(std::vector{0, 1}, std::vector{0, 0, 1, 1},
                                         std::vector{0, 0, 1}),
                         [](const auto& instance) {
                           return "n" + std::to_string(instance.param.size());
                         });

}  // namespace
}  // namespace plait::test
