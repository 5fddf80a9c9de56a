// The bandwidth of a link: the copies that are timed, and the figure that their times give.
#include "bench/link.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::bench {
namespace {

using test::run_ranks;
using testing::StartsWith;

constexpr int copies = 4, repeats = 7;  // as printed
constexpr std::size_t mib = std::size_t{1} << 20;

/// Milliseconds between the events of a rank: one repeat to warm up, then the repeats that count.
/// In these the slowest pair takes 70, 65, 30, 45, 50, 60 and 70 ms; the median is 60.
constexpr std::array<double, repeats + 1> times_of_0 = {1, 10, 20, 30, 40, 50, 60, 70};
constexpr std::array<double, repeats + 1> times_of_2 = {1, 70, 65, 15, 45, 5, 5, 5};

/// A real event that tells times of the script.
class ScriptedEvent final : public DeviceEvent {
 public:
  ScriptedEvent(std::unique_ptr<DeviceEvent> real, const double* times)
      : real_(std::move(real)), times_(times) {}
  void record(NativeStream stream) override { real_->record(stream); }
  bool done() override { return real_->done(); }
  void synchronize() override { real_->synchronize(); }
  void wait_in(NativeStream stream) override { real_->wait_in(stream); }
  double milliseconds_since(const DeviceEvent& earlier) const override {
    EXPECT_NE(this, &earlier);
    EXPECT_LT(asked_, repeats + 1) << "more repeats than were announced";
    return times_[std::min(asked_++, repeats)];
  }

 private:
  std::unique_ptr<DeviceEvent> real_;
  const double* times_;
  mutable int asked_ = 0;
};

struct Copy {
  const std::byte *to, *from;
  std::size_t bytes;
};

/// The host target as CUDA devices, which notes large copies instead of making them.
class Device final : public test::HostAsCuda {
 public:
  explicit Device(int ordinal) : HostAsCuda(ordinal, fmt::format("link {}", ordinal)) {}
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    if (bytes < mib) return ForwardingBackend::copy(to, from, bytes, stream);
    copied.push_back({static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes});
  }
  void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) override {
    if (bytes < mib) return ForwardingBackend::fill(to, value, bytes, stream);
    filled = static_cast<std::byte*>(to);
  }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit commit) override {
    return range = ForwardingBackend::reserve(ranks, bytes, token, commit);
  }
  std::unique_ptr<DeviceEvent> create_event(bool timed) override {
    auto event = ForwardingBackend::create_event(timed);
    if (!timed) return event;
    return std::make_unique<ScriptedEvent>(
        std::move(event), info_.ordinal == 0 ? times_of_0.data() : times_of_2.data());
  }

  std::vector<Copy> copied;
  const std::byte* filled = nullptr;
  std::shared_ptr<ReservedRange> range;  // the last one
};

const BackendRegistration registration = test::stand_in_for_cuda<Device>();

CommunicatorOptions on(BackendKind target) { return {.backend = target}; }

/// Each even rank copies into the next rank's memory, if there is a next rank.
TEST(Link, IsTheMedianOfTheSlowestPair) {
  for (const int ranks : {2, 3, 4}) {
    std::vector<Link> links(static_cast<std::size_t>(ranks));
    run_ranks(
        ranks,
        [&](Communicator& comm, int rank) {
          auto& device = dynamic_cast<Device&>(backend_of(comm));
          links[static_cast<std::size_t>(rank)] = measure_link(comm, nullptr);
          const bool copied = rank % 2 == 0 && rank + 1 < ranks;
          ASSERT_EQ(device.copied.size(), copied ? copies * (repeats + 1) : 0) << rank;
          for (const Copy& copy : device.copied) {
            EXPECT_EQ(copy.bytes, 256 * mib);
            EXPECT_EQ(copy.from, device.filled) << "it may copy pages that were never touched";
            const std::byte* const neighbour = device.range->address(rank + 1);
            EXPECT_GE(copy.to, neighbour);
            EXPECT_LT(copy.to, neighbour + 256 * mib);
          }
        },
        on(BackendKind::cuda));
    for (const Link& link : links) {
      EXPECT_DOUBLE_EQ(link.gb_per_s, 256.0 * mib * copies / ((ranks == 4 ? 60 : 40) * 1e6))
          << ranks;
      EXPECT_EQ(link.how,
                "copy engine into the neighbour's symmetric memory of 256M, ranks 0->1, 2->3, ... "
                "one way at a time; median of 7 repeats of 4 copies, slowest pair");
    }
  }
}

TEST(Link, IsNoneOfOneRank) {
  run_ranks(
      1,
      [](Communicator& comm, int) {
        const Link link = measure_link(comm, nullptr);
        EXPECT_EQ(link.gb_per_s, 0);
        EXPECT_EQ(link.how, "none: a single rank has no link");
        EXPECT_THAT(dynamic_cast<Device&>(backend_of(comm)).copied, testing::IsEmpty());
      },
      on(BackendKind::cuda));
}

/// Real copies. Four of the seven times are no shorter than their median, and all seven fit in the
/// time of the whole measurement, however busy the machine is. No memory copies a terabyte per
/// second.
TEST(Link, OfTheHostIsThatOfItsMemory) {
  std::array<Link, 2> links;
  double seconds = 0;
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        const auto start = std::chrono::steady_clock::now();
        links[static_cast<std::size_t>(rank)] = measure_link(comm, nullptr);
        const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
        if (rank == 0) seconds = all.count();
      },
      on(BackendKind::host));
  EXPECT_DOUBLE_EQ(links[0].gb_per_s, links[1].gb_per_s);
  EXPECT_GE(links[0].gb_per_s * 1e9, 64.0 * mib * copies * 4 / seconds);
  EXPECT_LT(links[0].gb_per_s, 1000);
  EXPECT_THAT(links[0].how, StartsWith("memcpy from the neighbour's window of 64M, "));
}

}  // namespace
}  // namespace plait::bench
