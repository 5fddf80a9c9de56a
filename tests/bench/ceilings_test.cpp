// The ceilings of plait-bench: the kernels do what is timed, the right ranks take part, and the
// figures are possible ones.
#include "bench/ceiling/ceilings.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "bench/ceiling/kernel.hpp"
#include "bench/memory.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"
#include "symm_mem/window.hpp"

namespace plait::bench {
namespace {

using test::error_of;
using test::run_ranks;

/// The host target as CUDA devices, which notes the launches of the benchmark's kernel. With a rank
/// `silent` it leaves out that rank's flags, and the copies, which take long.
class Device final : public test::HostAsCuda {
 public:
  explicit Device(int ordinal) : HostAsCuda(ordinal, fmt::format("ceiling {}", ordinal)) {}
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    if (kernel == find_kernel("ceiling", DataType::f32)) {
      ceiling::Args noted;
      ASSERT_EQ(bytes, sizeof(noted));
      std::memcpy(&noted, args, bytes);
      launched.push_back(noted);
      if (silent >= 0 && (noted.rounds == 0 || info_.ordinal == silent)) return;
    }
    ForwardingBackend::launch(kernel, shape, args, bytes, watch, stream);
  }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit commit) override {
    return range = ForwardingBackend::reserve(ranks, bytes, token, commit);
  }

  std::vector<ceiling::Args> launched;
  std::shared_ptr<ReservedRange> range;  // the last one
  static inline std::atomic<int> silent = -1;
};

const BackendRegistration registration = test::stand_in_for_cuda<Device>();

CommunicatorOptions on(BackendKind target) { return {.backend = target}; }

/// Launches the kernel as `measure_ceilings` does, but with a shape that leaves blocks a remainder.
void launch(Communicator& comm, const ceiling::Args& args) {
  Backend& backend = backend_of(comm);
  const KernelHandle kernel = backend.find_kernel("ceiling", DataType::f32);
  ASSERT_NE(kernel, nullptr);
  backend.launch(kernel, {3, 2}, &args, sizeof(args), Watch{}, nullptr);
}

TEST(Ceilings, CopyAllElementsAndNoMore) {
  constexpr std::size_t count = 10'007;
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        const auto window = comm.allocate_bytes((count + 1) * sizeof(float));
        std::vector<float> values(count + 1, -1), copy(count + 1, -1);
        for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) + 0.5F;
        // Rank 0 pushes into the window of rank 1 and pulls it back.
        if (rank == 0) {
          launch(comm, {.from = values.data(), .to = window->peer(1), .count = count});
          launch(comm, {.from = window->peer(1), .to = copy.data(), .count = count});
        }
        comm.synchronize();
        comm.bootstrap().barrier();
        const auto* const mine = reinterpret_cast<const float*>(window->local());
        EXPECT_TRUE(rank == 0 || std::equal(mine, mine + count, values.begin()));
        EXPECT_EQ(mine[count], 0) << "it wrote beyond the end";
        EXPECT_TRUE(rank != 0 || std::equal(copy.begin(), copy.end(), values.begin()));
      },
      on(BackendKind::host));
}

/// Even ranks copy to and from the next rank, if there is one. Both exchange flags.
TEST(Ceilings, AreMeasuredBetweenNeighbours) {
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        auto& device = dynamic_cast<Device&>(backend_of(comm));
        const Ceilings ceilings = measure_ceilings(comm, nullptr, {400, "measured"});
        EXPECT_EQ(ceilings.copy_engine_gbs, 400);
        std::size_t pushes = 0, pulls = 0, flags = 0, signals = 0, nothing = 0;
        std::uint32_t rounds = 0;
        for (const ceiling::Args& args : device.launched) {
          if (args.count == 0 && args.rounds == 0) {
            ++nothing;
            continue;
          }
          EXPECT_NE(rank, 2);
          if (!args.waits) {
            ++signals;
            continue;
          }
          if (args.rounds != 0) {
            ++flags;
            EXPECT_EQ(args.begins, rank == 0);
            EXPECT_EQ(args.peer, 1 - rank);
            EXPECT_EQ(args.first, rounds) << "values that the peer's word has had already";
            rounds += args.rounds;
            continue;
          }
          EXPECT_EQ(rank, 0);
          EXPECT_EQ(args.count * sizeof(float), std::size_t{128} << 20);
          const auto in_peers_window = [&](const void* pointer) {
            const std::byte* const first = device.range->address(1);
            return pointer >= first && pointer < first + args.count * sizeof(float);
          };
          pushes += in_peers_window(args.to) && !in_peers_window(args.from) ? 1 : 0;
          pulls += in_peers_window(args.from) && !in_peers_window(args.to) ? 1 : 0;
        }
        EXPECT_EQ(pushes, rank == 0 ? 24U : 0U);  // 6 repeats of 4
        EXPECT_EQ(pulls, pushes);
        EXPECT_EQ(flags, rank == 2 ? 0U : 8U);    // of 2 and of 6 repeats
        EXPECT_EQ(signals, rank == 2 ? 0U : 6U);  // of 6 repeats
        EXPECT_GT(nothing, 1000U);                // launches of all ranks
      },
      on(BackendKind::cuda));
}

/// Real ones: all repeats but the slower half fit in the time of the whole measurement, and no
/// memory copies a terabyte per second.
TEST(Ceilings, OfTheHostArePossible) {
  std::array<Ceilings, 2> of_ranks;
  double seconds = 0;
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        const auto start = std::chrono::steady_clock::now();
        of_ranks[static_cast<std::size_t>(rank)] = measure_ceilings(comm, nullptr, {3, "measured"});
        const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
        if (rank == 0) seconds = all.count();
      },
      on(BackendKind::host));
  const Ceilings& ceilings = of_ranks[0];
  for (const auto& bandwidth : {ceilings.push_gbs, ceilings.pull_gbs}) {
    ASSERT_TRUE(bandwidth);
    EXPECT_GT(*bandwidth * 1e9, 3 * (64 << 20) / seconds);
    EXPECT_LT(*bandwidth, 1000);
  }
  EXPECT_EQ(ceilings.greatest_gbs(), std::max({*ceilings.push_gbs, *ceilings.pull_gbs, 3.0}));
  for (const auto& latency : {ceilings.flag_us, ceilings.barrier_us, ceilings.signal_us,
                              ceilings.launch_us, ceilings.query_us}) {
    ASSERT_TRUE(latency);
    EXPECT_GT(*latency, 1e-4);  // a signal of the host is a store
    EXPECT_LT(*latency, 1e6 * seconds);
  }
  EXPECT_EQ(of_ranks[1].flag_us, ceilings.flag_us) << "ranks differ";
  EXPECT_EQ(of_ranks[1].push_gbs, ceilings.push_gbs) << "ranks differ";
}

TEST(Ceilings, AreNoneOfOneRank) {
  run_ranks(
      1,
      [](Communicator& comm, int) {
        const Ceilings ceilings = measure_ceilings(comm, nullptr, {});
        EXPECT_FALSE(ceilings.greatest_gbs());
        EXPECT_FALSE(ceilings.flag_us);
        EXPECT_FALSE(ceilings.barrier_us);
        EXPECT_EQ(ceilings.how, "none: a single rank has no peer");
      },
      on(BackendKind::host));
}

TEST(Ceilings, DoNotWaitForASilentPeerForEver) {
  Device::silent = 1;
  run_ranks(
      2,
      [](Communicator& comm, int) {
        comm.bootstrap().set_timeout(std::chrono::seconds(6));
        test::expect_error(error_of([&] { measure_ceilings(comm, nullptr, {}); }),
                           ErrorCode::timeout,
                           testing::HasSubstr("rank 0 has waited for rank 1 for 3.0 s"));
      },
      on(BackendKind::cuda));
  Device::silent = -1;
}

}  // namespace
}  // namespace plait::bench
