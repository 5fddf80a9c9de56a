// Shared by litmus_test (ranks are threads) and mpi_litmus_test (ranks are processes).
// PLAIT_LITMUS_ROUNDS: rounds of each kind, instead of a few seconds' worth.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "support/ranks.hpp"
#include "symm_mem/window.hpp"
#include "unit/litmus/kernel.hpp"

namespace plait::test {

/// A kind of data, and how long threads are held up.
class Litmus : public testing::TestWithParam<std::tuple<litmus::Mode, std::uint32_t>> {
 protected:
  using Mode = litmus::Mode;
  static Mode mode() { return std::get<0>(GetParam()); }
  static std::uint32_t delay() { return std::get<1>(GetParam()); }

  void SetUp() override {
    const DeviceFacts facts = open_backend(target(), 0)->info().facts;
    if (mode() == Mode::lines && facts.line_threads == 0) GTEST_SKIP() << "the target has no lines";
  }

  static std::uint32_t rounds() {
    if (const char* wanted = std::getenv("PLAIT_LITMUS_ROUNDS"); wanted != nullptr)
      return static_cast<std::uint32_t>(std::strtoul(wanted, nullptr, 10));
    return target() != BackendKind::host ? 5'000 : under_tsan ? 100 : 2'000;
  }

  /// A GPU's blocks all run at once; the host's may run one after the other.
  static LaunchShape shape() {
    return target() == BackendKind::host ? LaunchShape{2, 2} : LaunchShape{128, 256};
  }

  /// Collective.
  static void check(Communicator& comm) {
    Backend& backend = backend_of(comm);
    const DeviceScope device(backend);
    const LaunchShape launch = shape();
    const auto slots =
        comm.allocate_bytes(litmus::bytes_for(launch.blocks, launch.threads, comm.size()));
    const auto signals = comm.allocate_bytes(
        std::size_t{launch.blocks} * static_cast<unsigned>(comm.size()) * sizeof(std::uint32_t));
    const std::size_t counts = std::size_t{launch.blocks} * launch.threads;
    auto* const wrong =
        static_cast<std::uint32_t*>(backend.allocate(counts * sizeof(std::uint32_t)));
    auto* const claimed = static_cast<std::uint32_t*>(backend.allocate(sizeof(std::uint32_t)));
    auto* const pinned = static_cast<std::byte*>(backend.allocate_pinned(4096));
    backend.fill(wrong, 0, counts * sizeof(std::uint32_t), nullptr);
    backend.fill(claimed, 0, sizeof(std::uint32_t), nullptr);
    backend.synchronize(nullptr);
    comm.bootstrap().barrier();

    const litmus::Args args{.slots = slots->view(),
                            .signals = signals->view(),
                            .wrong = wrong,
                            // Flags wrap. Signals begin above what memory holds.
                            .first = mode() == Mode::messages ? 1 : 0xffffffc0u,
                            .rounds = rounds(),
                            .delay = delay(),
                            .mode = mode(),
                            .rank = comm.rank(),
                            .ranks = comm.size()};
    const Watch watch{
        .abort = reinterpret_cast<std::uint32_t*>(pinned),
        .record = reinterpret_cast<DiagnosticRecord*>(pinned + 64),
        .claimed = claimed,
        .timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(patience).count()),
        .call = 1,
        .algorithm = 0,
        .rank = comm.rank()};
    const KernelHandle kernel = backend.find_kernel("litmus", DataType::u32);
    ASSERT_NE(kernel, nullptr);
    backend.launch(kernel, launch, &args, sizeof(args), watch, nullptr);
    std::vector<std::uint32_t> found(counts);
    std::uint32_t expired = 0;
    backend.copy(found.data(), wrong, counts * sizeof(std::uint32_t), nullptr);
    backend.copy(&expired, claimed, sizeof(expired), nullptr);
    backend.synchronize(nullptr);
    EXPECT_EQ(expired, 0u) << "rank " << comm.rank() << " ran out of time";
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::uint64_t{0}), 0u)
        << "wrong words on rank " << comm.rank();
    comm.bootstrap().barrier();
    backend.deallocate_pinned(pinned);
    backend.deallocate(claimed);
    backend.deallocate(wrong);
  }

 public:
  static auto all() {
    return testing::Combine(
        testing::Values(Mode::packets, Mode::lines, Mode::messages, Mode::marked),
        testing::Values(0u, 40u));
  }
  static std::string name(const testing::TestParamInfo<ParamType>& info) {
    const char* const names[] = {"packets", "lines", "messages", "marked"};
    return fmt::format("{}_delay{}", names[static_cast<std::size_t>(std::get<0>(info.param))],
                       std::get<1>(info.param));
  }
};

}  // namespace plait::test
