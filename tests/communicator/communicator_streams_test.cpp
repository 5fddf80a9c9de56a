// Communicators and streams: barriers, the default stream that communicators of a rank share, and
// lives that end while a stream still works.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "plait/communicator.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

PLAIT_FOR_RANKS(CommunicatorStreams, testing::Values(1, 2, 3, 4));

/// No rank's stream passes a barrier before all ranks' streams have reached it.
TEST_P(CommunicatorStreams, BarrierHoldsStreams) {
  std::vector<std::atomic<int>> arrived(3);
  run_ranks(GetParam(), [&](Communicator& comm, int rank) {
    for (auto& count : arrived) {
      backend_of(comm).host_call(nullptr, [&, rank] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10 * rank));
        ++count;
      });
      comm.barrier();
      backend_of(comm).host_call(nullptr, [&] { EXPECT_EQ(count, comm.size()); });
    }
    comm.synchronize();
    comm.bootstrap().barrier();
  });
}

constexpr auto pause = std::chrono::milliseconds(50);

/// `second` reduces the result of `first`. Both calls go to the device's default stream, without a
/// wait in between.
void expect_one_default_stream(Communicator& first, Communicator& second, const char* which) {
  constexpr std::size_t count = 1000, bytes = count * sizeof(int);
  const auto values = [](const DeviceArray& array) {
    return std::span(reinterpret_cast<int*>(array.image()), count);
  };
  DeviceArray x(backend_of(first), bytes), y(backend_of(first), bytes),
      z(backend_of(second), bytes);
  for (DeviceArray* array : {&x, &y, &z}) {
    array->place(0, bytes);
    for (std::size_t i = 0; i < count; ++i)
      values(*array)[i] = array == &x ? element<int>(1, first.rank(), i, ReduceOp::sum) : 0;
    array->upload({});
  }
  first.synchronize();
  second.synchronize();
  backend_of(first).host_call(nullptr, [] { std::this_thread::sleep_for(pause); });
  first.all_reduce(x.device(), y.device(), count, DataType::i32, ReduceOp::sum);
  second.all_reduce(y.device(), z.device(), count, DataType::i32, ReduceOp::sum);
  z.download({});
  second.synchronize();
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = static_cast<unsigned>(expected<int>(1, first.size(), i, ReduceOp::sum, 1));
    ASSERT_EQ(values(z)[i], static_cast<int>(sum * static_cast<unsigned>(second.size())))
        << which << ", element " << i;
  }
  first.synchronize();
}

TEST_P(CommunicatorStreams, OfARankShareItsDefaultStream) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    Communicator twin = comm.duplicate();
    expect_one_default_stream(comm, twin, "a duplicate");
    expect_one_default_stream(twin, comm, "a duplicate, the other way round");
    Communicator part = *comm.split(rank % 2, rank);
    expect_one_default_stream(comm, part, "a part");
    expect_one_default_stream(twin, part, "a duplicate and a part");
    Communicator alone = Communicator::create(comm.bootstrap().split(rank, 0), test_options());
    expect_one_default_stream(comm, alone, "made by the same thread");
    std::optional<Communicator> elsewhere;
    std::thread([&] { elsewhere = comm.duplicate(); }).join();
    expect_one_default_stream(comm, *elsewhere, "a duplicate made by another thread");
    comm.bootstrap().barrier();
  });
}

/// A stream of one, work of the other.
TEST_P(CommunicatorStreams, NothingIsFreedThatAStreamStillUses) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Stream stream = comm.create_stream();
    Backend& backend = backend_of(comm);
    std::atomic<bool> finished = false;
    const auto work = [&](Communicator& of, float* data, std::size_t count) {
      finished = false;
      backend.host_call(stream.native(), [] { std::this_thread::sleep_for(pause); });
      for (int i = 0; i < 3; ++i)
        of.all_reduce(data, data, count, DataType::f32, ReduceOp::sum, stream);
      backend.host_call(stream.native(), [&] { finished = true; });
    };
    const Buffer<float> own = comm.allocate<float>(1000);
    {
      Communicator twin = comm.duplicate();
      {
        const Buffer<float> buffer = twin.allocate<float>(1000);
        work(twin, buffer.data(), buffer.size());
      }
      EXPECT_TRUE(finished) << "memory was freed";
      work(twin, own.data(), own.size());
    }
    EXPECT_TRUE(finished) << "a communicator was destroyed";
    comm.synchronize(stream);
    comm.bootstrap().barrier();
  });
}

TEST_P(CommunicatorStreams, AStreamOutlivesTheCommunicatorThatMadeIt) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    std::optional<Communicator> twin = comm.duplicate();
    const Stream stream = twin->create_stream();
    twin.reset();
    const Buffer<float> buffer = comm.allocate<float>(1000);
    for (int i = 0; i < 3; ++i)
      comm.all_reduce(buffer.data(), buffer.data(), buffer.size(), DataType::f32, ReduceOp::sum,
                      stream);
    comm.synchronize(stream);
    comm.bootstrap().barrier();
  });
}

/// Ranks alone in their process, as under MPI: the device is the process's, whichever thread makes
/// a communicator.
TEST(CommunicatorsOfAProcess, ShareItsDefaultStream) {
  const auto alone = [] {
    CommunicatorOptions options = test_options();
    options.device = 0;
    return Communicator::create(std::move(make_thread_bootstraps(1)[0]), options);
  };
  Communicator first = alone();
  std::optional<Communicator> second;
  std::thread([&] { second = alone(); }).join();
  expect_one_default_stream(first, *second, "made by another thread");
}

}  // namespace
}  // namespace plait::test
