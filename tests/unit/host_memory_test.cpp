// Devices that can't reach each other's memory: ranks then meet in host memory. No machine is
// needed that has such devices: a target that runs on the host, and refuses to map peers' memory
// until it is told to use host memory, stands in for CUDA.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "backends/gpu/registered_range.hpp"
#include "backends/gpu/runtime_call.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

std::atomic<int> refused_imports = 0;

/// Memory of this rank only.
class Unreachable final : public ReservedRange {
 public:
  explicit Unreachable(std::shared_ptr<ReservedRange> own) : own_(std::move(own)) {}
  std::byte* address(int rank) const noexcept override { return own_->address(rank); }
  WindowView view(int rank) const noexcept override { return own_->view(rank); }
  UniqueFd create_local(int rank) override { return own_->create_local(rank); }
  void import_peer(int rank, UniqueFd) override {
    ++refused_imports;
    throw Error(ErrorCode::no_peer_access, "no way to copy " + std::to_string(rank));
  }

 private:
  std::shared_ptr<ReservedRange> own_;
};

/// The host target as devices of CUDA, each on its own.
class LonelyBackend final : public HostAsCuda {
 public:
  explicit LonelyBackend(int ordinal) : HostAsCuda(ordinal, "lonely" + std::to_string(ordinal)) {
    info_.architecture = "sm_90";
    info_.facts.units = 16;  // GPUs have many
    info_.facts.block_threads = 16;
  }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit commit) override {
    auto range = ForwardingBackend::reserve(ranks, bytes, token, commit);
    if (info_.facts.peer_access) return std::make_shared<Unreachable>(std::move(range));
    return range;
  }
  void use_host_memory() override { info_.facts.peer_access = false; }
};

const BackendRegistration registration = stand_in_for_cuda<LonelyBackend>();

CommunicatorOptions lonely() {
  CommunicatorOptions options = test_options();
  options.backend = BackendKind::cuda;
  return options;
}

void expect_sums(Communicator& comm, const std::string& algorithm, bool symmetric) {
  constexpr std::size_t count = 5000;
  std::vector<float> send(count), recv(count);
  Buffer<float> own;
  float *from = send.data(), *to = recv.data();
  if (symmetric) {
    own = comm.allocate<float>(2 * count);
    from = own.data();
    to = from + count;
  }
  for (std::size_t i = 0; i < count; ++i)
    from[i] = static_cast<float>(i % 100 + static_cast<std::size_t>(comm.rank()));
  CallOptions options;
  options.algorithm = algorithm;
  options.threads = 8;  // on CPUs after all
  const Stream stream = comm.create_stream();
  comm.all_reduce(from, to, count, DataType::f32, ReduceOp::sum, stream, options);
  comm.synchronize(stream);
  const auto n = static_cast<std::size_t>(comm.size()),
             ranks = n * (n - 1) / 2;  // the sum of their numbers
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    wrong += to[i] != static_cast<float>(n * (i % 100) + ranks);
  EXPECT_EQ(wrong, 0u) << algorithm << (symmetric ? ", symmetric" : ", ordinary");
}

TEST(HostMemory, IsUsedOnceADeviceCannotReachAPeers) {
  refused_imports = 0;
  run_ranks(
      3,
      [](Communicator& comm, int) {
        EXPECT_FALSE(backend_of(comm).info().facts.peer_access);
        EXPECT_THAT(comm.describe(), HasSubstr("peers through host memory"));
        Topology topology{backend_of(comm).info().facts};
        topology.backend = BackendKind::cuda;
        topology.ranks = comm.size();
        for (const auto& algorithm : Registry::instance().all())
          if (!algorithm->is_lossy() &&
              algorithm->supports({.count = 16, .symmetric = true}, topology))
            expect_sums(comm, std::string(algorithm->name()), true);
        expect_sums(comm, "", false);
        auto part = comm.split(comm.rank() == 2 ? 1 : 0, 0);
        expect_sums(*part, "", true);
      },
      lonely());
  EXPECT_EQ(
      refused_imports,
      3 + 2);  // the first peer of each rank, once for each of the communicators of several ranks
}

TEST(HostMemory, CopiesWithinItAreNotForCallsThatMustNotBlock) {
  run_ranks(
      2,
      [](Communicator& comm, int) {
        auto buffer = comm.allocate<float>(100);
        const auto error = error_of([&] {
          comm.all_reduce(buffer.data(), buffer.data(), 100, DataType::f32, ReduceOp::sum, {},
                          {.algorithm = "copy_engine"});
        });
        expect_error(error, ErrorCode::unsupported,
                     HasSubstr("devices must reach each other's memory"));
      },
      lonely());
}

TEST(HostMemory, IsUsedWithoutAnAttemptWhenPeerAccessIsOff) {
  const ScopedEnvironment environment("PLAIT_DISABLE_P2P", "1");
  refused_imports = 0;
  run_ranks(
      2, [](Communicator& comm, int) { expect_sums(comm, "", false); }, lonely());
  EXPECT_EQ(refused_imports, 0);
}

TEST(HostMemory, TheSwitchIsReadLikeAllOthers) {
  const ScopedEnvironment environment("PLAIT_DISABLE_P2P", "yes");
  const auto error = error_of([] {
    run_ranks(
        2, [](Communicator&, int) {}, lonely());
  });
  expect_error(error, ErrorCode::invalid_argument, HasSubstr("PLAIT_DISABLE_P2P=\"yes\""));
}

/// A runtime that pins nothing and remembers what it was asked to.
struct PinningRuntime {
  static constexpr const char* label = "test";
  using CaptureMode = int;
  static constexpr int capture_relaxed = 0;
  static inline std::set<void*> pinned{};
  static inline std::ptrdiff_t moved = 0;
  static inline bool full = false;

  static int exchange(int*) { return 0; }
  static int pin(void* pointer, std::size_t, unsigned) {
    if (full) return 2;
    return pinned.insert(pointer).second ? 0 : 1;
  }
  static int unpin(void* pointer) { return pinned.erase(pointer) == 1 ? 0 : 1; }
  static int address(void** device, void* host, unsigned) {
    *device = static_cast<std::byte*>(host) + moved;
    return 0;
  }
  static constexpr unsigned register_mapped = 2;
  static constexpr gpu::RuntimeCall exchange_capture_mode{"exchange", exchange};
  static constexpr gpu::RuntimeCall host_register{"pin", pin};
  static constexpr gpu::RuntimeCall host_unregister{"unpin", unpin};
  static constexpr gpu::RuntimeCall host_device_pointer{"address", address};
};

}  // namespace
}  // namespace plait::test

template <>
struct plait::gpu::StatusTraits<int> {
  static constexpr int success = 0, not_ready = 3, out_of_memory = 2;
  static const char* name(int) { return "status"; }
  static const char* text(int status) { return status == out_of_memory ? "no more" : "refused"; }
  static void forget() {}
};

namespace plait::test {
namespace {

using Range = gpu::RegisteredRange<PinningRuntime>;

class Registered : public testing::Test {
 protected:
  ~Registered() override {
    PinningRuntime::moved = 0;
    PinningRuntime::full = false;
    EXPECT_TRUE(PinningRuntime::pinned.empty());
  }
};

TEST_F(Registered, EveryRankPinsEveryPartForItself) {
  Range a(2, 10'000), b(2, 10'000);
  UniqueFd first = a.create_local(0), second = b.create_local(1);
  a.import_peer(1, std::move(second));
  b.import_peer(0, std::move(first));
  EXPECT_EQ(PinningRuntime::pinned,
            (std::set<void*>{a.address(0), a.address(1), b.address(0), b.address(1)}));
  EXPECT_EQ(a.view(0).own + a.view(0).stride, a.address(1));
  a.address(1)[9'999] = std::byte{7};
  EXPECT_EQ(b.address(1)[9'999], std::byte{7});
}

TEST_F(Registered, WhatWasPinnedIsLetGoAfterAFailure) {
  Range range(2, 100);
  static_cast<void>(range.create_local(0));
  PinningRuntime::full = true;
  expect_error(error_of([&] { static_cast<void>(range.create_local(1)); }),
               ErrorCode::out_of_memory, HasSubstr("pin: no more"));
  EXPECT_EQ(PinningRuntime::pinned.size(), 1u);
}

TEST_F(Registered, AnotherAddressOnTheDeviceIsRefused) {
  PinningRuntime::moved = 64;
  Range range(1, 100);
  expect_error(error_of([&] { static_cast<void>(range.create_local(0)); }), ErrorCode::unsupported,
               HasSubstr("another address"));
}

/// A peer that shrank a file would end every rank that reads beyond its end.
TEST(HostRange, FilesKeepTheirSize) {
  host::HostRange range(2, 3 * host::HostRange::page, Commit::at_once);
  const UniqueFd file = range.create_local(0);
  EXPECT_NE(::ftruncate(file.get(), host::HostRange::page), 0);
  EXPECT_NE(::ftruncate(file.get(), 4 * host::HostRange::page), 0);
  EXPECT_NE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE),
            0);  // nor can a peer take the right to write away
}

TEST(HostRange, TakesNothingButAFileOfItsSizeThatKeepsIt) {
  constexpr auto bytes = 3 * host::HostRange::page;
  host::HostRange range(2, bytes, Commit::at_once),
      other(2, bytes + host::HostRange::page, Commit::at_once);
  const auto refused = [&](UniqueFd fd) {
    expect_error(error_of([&] { range.import_peer(1, std::move(fd)); }), ErrorCode::backend,
                 HasSubstr("no sealed memory file of 12288 bytes came"));
  };
  refused(other.create_local(0));
  UniqueFd unsealed(::memfd_create("plait-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(unsealed.get(), bytes), 0);
  refused(std::move(unsealed));
  refused(UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  refused(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)));
  refused(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  refused(UniqueFd());
  range.import_peer(1, host::HostRange(1, bytes, Commit::at_once).create_local(0));
  range.address(1)[bytes - 1] = std::byte{1};
}

}  // namespace
}  // namespace plait::test
