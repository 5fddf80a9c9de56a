// Memory of the program's own, attached by ranks that are threads: calls on it, what is refused,
// and what calls and graphs that knew it do afterwards.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plait/group.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/sums.hpp"

namespace plait::test {
namespace {

constexpr std::size_t count = 10000;

/// Device memory of one rank. `shift`: bytes from its beginning to the values.
class Memory {
 public:
  explicit Memory(Communicator& comm, std::size_t values = count, std::size_t shift = 0)
      : comm_(comm),
        backend_(backend_of(comm)),
        bytes_(values * sizeof(float)),
        base_(static_cast<std::byte*>(backend_.allocate(bytes_ + shift))),
        data_(reinterpret_cast<float*>(base_ + shift)) {}
  ~Memory() { backend_.deallocate(base_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  float* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::shared_ptr<Window> attach() { return comm_.attach(data_, bytes_); }

  void reduce(StreamRef stream = {}, const CallOptions& options = {}) {
    comm_.all_reduce(data_, data_, count, DataType::f32, ReduceOp::sum, stream, options);
  }
  void expect_sum(std::uint64_t call, const CallOptions& options = {}) {
    test::expect_sum(comm_, data_, count, call, options);
  }

 private:
  Communicator& comm_;
  Backend& backend_;
  std::size_t bytes_;
  std::byte* base_;
  float* data_;
};

class Attach : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
  static void run(const std::function<void(Communicator&, int)>& body) {
    run_ranks(GetParam(), body, test_options());
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Attach, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return fmt::format("n{}", info.param); });

/// Addresses, sizes and offsets differ.
TEST_P(Attach, ServesCallsThatNeedSymmetricMemory) {
  run([](Communicator& comm, int rank) {
    Memory memory(comm, count + static_cast<std::size_t>(rank) * 5000,
                  16 * static_cast<std::size_t>(rank % 3));
    EXPECT_FALSE(comm.is_symmetric(memory.data(), memory.bytes()));
    const auto window = memory.attach();
    EXPECT_TRUE(comm.is_symmetric(memory.data(), memory.bytes()));
    EXPECT_FALSE(comm.is_symmetric(memory.data(), memory.bytes() + 1));
    for (std::uint64_t call = 0; call < 5; ++call)
      memory.expect_sum(call, comm.size() > 1 ? needs_symmetric : CallOptions{});
    comm.detach(window);
    EXPECT_FALSE(comm.is_symmetric(memory.data(), memory.bytes()));
    if (comm.size() > 1)
      expect_throws(
          ErrorCode::unsupported, [&] { memory.reduce({}, needs_symmetric); }, "symmetric");
  });
}

TEST_P(Attach, MessagesGoStraightIntoIt) {
  run([](Communicator& comm, int rank) {
    const int n = comm.size();
    Memory from(comm), to(comm, count + static_cast<std::size_t>(rank), 32);
    const auto window = to.attach();
    fill_summands(comm, from.data(), count, 7);
    comm.send_recv(from.data(), count, (rank + 1) % n, to.data(), count, (rank + n - 1) % n,
                   DataType::f32, {}, {.symmetric = true});
    std::vector<float> got(count);
    comm.copy(got.data(), to.data(), count * sizeof(float));
    comm.synchronize();
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], summand(7, (rank + n - 1) % n, i));
    comm.detach(window);
  });
}

/// Known calls are those that came three times.
TEST_P(Attach, KnownCallsForgetIt) {
  run([](Communicator& comm, int) {
    Memory memory(comm);
    for (std::uint64_t round = 0; round < 4; ++round) {
      const auto window = round % 2 == 0 ? memory.attach() : nullptr;
      for (std::uint64_t call = 0; call < 4; ++call) memory.expect_sum(round * 4 + call);
      if (window) comm.detach(window);
    }
    auto dropped = memory.attach();
    for (std::uint64_t call = 20; call < 24; ++call) memory.expect_sum(call);
    comm.barrier();
    comm.synchronize();
    dropped.reset();
    memory.expect_sum(30);
  });
}

TEST_P(Attach, GraphsOutliveIt) {
  run([](Communicator& comm, int) {
    Memory memory(comm);
    const auto window = memory.attach();
    memory.expect_sum(1);  // the scratch memory is there before the capture
    Stream stream = comm.create_stream();
    Backend& backend = backend_of(comm);
    std::unique_ptr<Graph> graph;
    {
      const DeviceScope device(backend);
      backend.begin_capture(stream.native());
      memory.reduce(stream);
      graph = backend.end_capture(stream.native());
    }
    comm.detach(window);
    for (std::uint64_t call = 2; call < 4; ++call) {
      fill_summands(comm, memory.data(), count, call, stream);
      const DeviceScope device(backend);
      graph->launch(stream.native());
      EXPECT_EQ(wrong_sums(comm, memory.data(), count, call, stream), 0u);
    }
  });
}

/// One rank's mistake is the same error on all, and the next call works.
TEST_P(Attach, RefusesBadMemory) {
  run([](Communicator& comm, int rank) {
    Memory good(comm), other(comm);
    const auto allocated = comm.allocate<float>(count);
    const int culprit = comm.size() - 1;
    const auto expect = [&](void* pointer, std::size_t bytes, const char* why) {
      const bool mine = rank == culprit;
      expect_invalid(
          [&] { comm.attach(mine ? pointer : good.data(), mine ? bytes : good.bytes()); },
          fmt::format("attach: rank {}", culprit), why);
      EXPECT_FALSE(comm.is_symmetric(good.data(), 1));
    };
    auto* const bytes = reinterpret_cast<std::byte*>(other.data());
    expect(nullptr, 100, "null");
    expect(bytes, 0, "0 bytes");
    expect(bytes + 4, 100, "not aligned to 16 bytes");
    expect(bytes, ~std::size_t{0} - 15, "overflows");
    expect(allocated.data(), 100, "overlaps");
    const auto window = other.attach();
    expect(bytes + 1600, 1600, "overlaps");
    comm.detach(window);
    if (comm.backend_kind() != BackendKind::host) {
      std::vector<float> host(100);
      expect(host.data(), 100, "no device memory");
    } else {
      alignas(16) static const std::array<std::uint64_t, 16> constant{1};
      expect(const_cast<std::uint64_t*>(constant.data()), 100,
             "no memory that this process can write to");
    }
    const auto again = good.attach();
    good.expect_sum(3);
    comm.detach(again);
  });
}

TEST_P(Attach, RefusesBadDetach) {
  run([](Communicator& comm, int rank) {
    Memory one(comm), two(comm);
    const auto first = one.attach(), second = two.attach();
    const auto allocated = comm.allocate_bytes(100);
    expect_invalid([&] { comm.detach(nullptr); }, "detach", "null");
    expect_invalid([&] { comm.detach(allocated); }, "detach", "not attached");
    Communicator copy = comm.duplicate();
    expect_invalid([&] { copy.detach(first); }, "not attached");
    if (comm.size() > 1)
      expect_throws(
          ErrorCode::mismatch, [&] { comm.detach(rank == 0 ? first : second); },
          "detach: rank 1 passed window", "rank 0 passed");
    expect_invalid(
        [&] {
          const Group group;
          one.reduce();
          comm.detach(first);
        },
        "detach", "group");
    comm.synchronize();
    comm.detach(first);
    expect_invalid([&] { comm.detach(first); }, "not attached");
    two.expect_sum(5, comm.size() > 1 ? needs_symmetric : CallOptions{});
    comm.detach(second);
  });
}

TEST_P(Attach, AllPassOneUse) {
  run([](Communicator& comm, int rank) {
    Memory memory(comm);
    if (comm.size() == 1) return;
    const auto use = rank == 1 ? WindowUse::one_sided : WindowUse::all_calls;
    expect_throws(
        ErrorCode::mismatch, [&] { comm.attach(memory.data(), memory.bytes(), use); },
        "attach: ranks 0 and 1 passed different uses");
    EXPECT_FALSE(comm.is_symmetric(memory.data(), 1));
  });
}

/// Another thread is not in the group.
TEST_P(Attach, DetachedWhileAGroupIsOpen) {
  run([](Communicator& comm, int) {
    Memory memory(comm);
    const auto window = memory.attach();
    expect_invalid(
        [&] {
          const Group group;
          memory.reduce();
          std::thread([&] { comm.detach(window); }).join();
        },
        "was detached before the end");
    memory.expect_sum(2);
  });
}

TEST_P(Attach, AnAbortEndsIt) {
  run([](Communicator& comm, int rank) {
    if (comm.size() == 1) return;
    Memory memory(comm);
    if (rank == 0) {
      comm.abort("enough");
      return;
    }
    expect_throws(
        ErrorCode::aborted, [&] { memory.attach(); }, "enough");
  });
}

}  // namespace
}  // namespace plait::test
