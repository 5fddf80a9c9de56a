// Chunks between nodes in device memory, through a network plug-in that reaches it. No GPU is
// needed: the host target stands in for CUDA.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "communicator/one_sided.hpp"
#include "support/data.hpp"
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

struct Setting {
  std::vector<int> nodes;  // of the ranks
  int version = 11;        // of the plug-in's interface
  bool is_rough = false;
};

class GpuDirect : public testing::TestWithParam<Setting> {
 protected:
  using Scoped = PluginFaults::Scoped;

  void run(const std::function<void(Communicator&, Arena&)>& body) {
    run_on_nodes(GetParam().nodes, {.backend = BackendKind::cuda}, std::size_t{8} << 20, body);
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
    for (const auto& error : errors_of_ranks([](Communicator&) {}))
      expect_error(error, ErrorCode::unsupported, HasSubstr(words));
  }
  /// Of each rank that creates a communicator and runs `body`.
  static std::vector<std::optional<Error>> errors_of_ranks(
      const std::function<void(Communicator&)>& body) {
    const std::vector<int>& nodes = GetParam().nodes;
    std::vector<std::optional<Error>> errors(nodes.size());
    with_bootstraps(static_cast<int>(nodes.size()), [&](auto bootstrap, int rank) {
      errors[static_cast<std::size_t>(rank)] = error_of([&] {
        Communicator comm =
            Communicator::create(std::make_unique<PretendNodes>(std::move(bootstrap), nodes),
                                 test_options({.backend = BackendKind::cuda}));
        body(comm);
      });
    });
    return errors;
  }
  static void sum_numbers(Communicator& comm) {
    const Buffer<std::uint64_t> x = comm.allocate<std::uint64_t>(100'003);
    for (std::size_t i = 0; i < x.size(); ++i)
      x.data()[i] = hash(5, static_cast<std::uint64_t>(comm.rank()), i);
    comm.all_reduce(x.data(), x.data(), x.size(), DataType::u64, ReduceOp::sum, {},
                    {.algorithm = "rails"});
    comm.synchronize();
  }

  const std::string name = plugin_of_version(GetParam().version);
  PluginFaults faults{name};
  ScopedEnvironment plugin{"PLAIT_NET_PLUGIN", test_plugin(name)};
  const RoughPlugin rough{GetParam().is_rough ? GetParam().version : 0};
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
  faults.expect_nothing_is_left();
}

/// Ranks register memory when they open a flow, in the middle of a call.
TEST_P(GpuDirect, AFailedRegistrationIsAnErrorOfAllRanks) {
  const Scoped reaches(faults, "pointers", host_pointers | device_pointers);
  std::size_t failures = 0;
  for (std::uint64_t successes = 0;; successes += 1 + hash(failures, 7, 3) % 5) {
    const Scoped fails(faults, "fail_register", static_cast<int>(successes));
    std::barrier all_are_done(static_cast<std::ptrdiff_t>(GetParam().nodes.size()));
    std::atomic<bool> any_failed = false;
    const auto errors = errors_of_ranks([&](Communicator& comm) {
      auto error = error_of([&] { sum_numbers(comm); });
      if (error) any_failed = true;
      all_are_done.arrive_and_wait();
      // A rank that has its result may hear of it later.
      if (!error && any_failed) error = heard(comm);
      if (error) throw Error(*error);
    });
    faults.expect_nothing_is_left();
    const auto has_failed = [](const auto& error) { return error.has_value(); };
    if (std::none_of(errors.begin(), errors.end(), has_failed)) break;
    ++failures;
    std::string all;
    for (const auto& error : errors) {
      expect_error(error, ErrorCode::rank_lost, HasSubstr("rank "));
      if (error) all += error->what();
    }
    EXPECT_THAT(all, HasSubstr("PlaitTest")) << successes;
    EXPECT_THAT(all, HasSubstr("regMr: system error (2)")) << successes;
  }
  EXPECT_GT(failures, 3U);
}

/// Without a way to a device that is near, ranks take the network devices in turn.
TEST_P(GpuDirect, RanksTakeNetworkDevicesInTurn) {
  const Scoped two(faults, "devices", 2), unused(faults, "used_devices", 0);
  run([&](Communicator& comm, Arena& arena) {
    check(comm, arena, {.algorithm = "rails", .type = DataType::i32, .count = 50'001});
  });
  EXPECT_EQ(faults.get("used_devices"), 3);
  faults.expect_nothing_is_left();
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

const auto name_of_setting = [](const auto& instance) {
  const Setting& setting = instance.param;
  return fmt::format("v{}_n{}", setting.version, setting.nodes.size());
};
INSTANTIATE_TEST_SUITE_P(Nodes, GpuDirect,
                         testing::Values(Setting{{0, 1}}, Setting{{0, 0, 1, 1}},
                                         Setting{{0, 0, 1}}),
                         name_of_setting);
INSTANTIATE_TEST_SUITE_P(Rough, GpuDirect,
                         testing::Values(Setting{{0, 0, 1}, 8, true}, Setting{{0, 1}, 9, true},
                                         Setting{{0, 0, 1, 1}, 10, true},
                                         Setting{{0, 0, 1, 1}, 11, true},
                                         Setting{{0, 0, 1}, 12, true}),
                         name_of_setting);

}  // namespace
}  // namespace plait::test
