// Handles that are refused. Of another stream in each thread (cudaStreamPerThread,
// hipStreamPerThread): the host has none, and a target that runs on it and refuses one handle
// stands in for CUDA. And on the host, of a stream that has been destroyed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

char anybody;  // an address that is no stream
const StreamRef each_threads_own(reinterpret_cast<CUstream_st*>(&anybody));

/// The host target as devices of CUDA.
class StandIn final : public HostAsCuda {
 public:
  explicit StandIn(int ordinal) : HostAsCuda(ordinal, "stand-in " + std::to_string(ordinal)) {}
  bool names_one_stream(NativeStream stream) const noexcept override {
    return stream != each_threads_own.native();
  }
};

const BackendRegistration registration = stand_in_for_cuda<StandIn>();

CommunicatorOptions stand_in() {
  CommunicatorOptions options = test_options();
  options.backend = BackendKind::cuda;
  return options;
}

/// Every way of making a call.
std::vector<std::pair<std::string, std::function<void(Communicator&)>>> calls(std::vector<int>& x,
                                                                              StreamRef stream) {
  constexpr auto i32 = DataType::i32;
  return {{"all_reduce",
           [&x, stream](Communicator& comm) {
             comm.all_reduce(x.data(), x.data(), 4, i32, ReduceOp::sum, stream);
           }},
          {"all_reduce",
           [&x, stream](Communicator& comm) {
             comm.all_reduce(x.data(), x.data(), 0, i32, ReduceOp::sum, stream);
           }},
          {"barrier", [stream](Communicator& comm) { comm.barrier(stream); }},
          {"send_recv", [&x, stream](Communicator& comm) {
             const int next = (comm.rank() + 1) % comm.size(),
                       before = (comm.rank() + comm.size() - 1) % comm.size();
             comm.send_recv(x.data(), 4, next, x.data() + 4, 4, before, i32, stream);
           }}};
}

void expect_refused_alone_and_in_groups() {
  run_ranks(2, stand_in(), [](Communicator& comm, int) {
    std::vector<int> x(8), y(8);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = element<int>(1, comm.rank(), i, ReduceOp::sum);
    for (const auto& [name, made] : calls(x, each_threads_own)) {
      const auto& call = made;
      expect_error(error_of([&] { call(comm); }), ErrorCode::invalid_argument,
                   testing::ContainsRegex(name + ": rank [01]: stream 0x"));
      const auto in_group = error_of([&] {
        const Group group;
        comm.all_reduce(y.data(), y.data(), 8, DataType::i32, ReduceOp::sum);
        call(comm);
      });
      expect_error(in_group, ErrorCode::invalid_argument, HasSubstr("group: call 2: "));
      expect_error(in_group, ErrorCode::invalid_argument,
                   testing::ContainsRegex(name + ": rank [01]: stream 0x"));
    }
    EXPECT_EQ(comm.statistics().calls, 0u);
    const Stream stream = comm.create_stream();
    comm.all_reduce(x.data(), x.data(), 8, DataType::i32, ReduceOp::sum, stream);
    comm.synchronize(stream);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(x[i], expected<int>(1, 2, i, ReduceOp::sum, 1)) << i;
    EXPECT_THAT(y, testing::Each(0)) << "the refused group had this call, too";
  });
}

TEST(StreamOfEachThread, IsRefused) { expect_refused_alone_and_in_groups(); }

TEST(StreamOfEachThread, IsRefusedWhereRanksCheckTogether) {
  const ScopedEnvironment check("PLAIT_CHECK", "1");
  expect_refused_alone_and_in_groups();
}

TEST(StreamOfEachThread, IsRefusedOnAnyDeviceOfAGroup) {
  DeviceGroup gpus({0, 1}, {.backend = BackendKind::cuda, .timeout = patience});
  const std::vector<Stream> streams = gpus.create_streams();
  std::vector<int> x(8), y(8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = element<int>(1, 0, i, ReduceOp::sum);
    y[i] = element<int>(1, 1, i, ReduceOp::sum);
  }
  const std::vector<void*> data{x.data(), y.data()};
  expect_invalid(
      [&] {
        gpus.all_reduce({x.data(), y.data()}, data, 8, DataType::i32, ReduceOp::sum,
                        {streams[0], each_threads_own});
      },
      "all_reduce: rank 1: stream ");
  EXPECT_EQ(gpus.device(0).statistics().calls, 0u);
  gpus.all_reduce({x.data(), y.data()}, data, 8, DataType::i32, ReduceOp::sum, streams);
  gpus.synchronize(streams);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i], expected<int>(1, 2, i, ReduceOp::sum, 1)) << i;
    EXPECT_EQ(y[i], x[i]) << i;
  }
}

TEST(DestroyedStream, IsRefused) {
  CommunicatorOptions options = test_options();
  options.backend = BackendKind::host;
  run_ranks(2, options, [](Communicator& comm, int) {
    std::vector<int> x(8, 1);
    const auto handle = [](const Stream& stream) {
      return StreamRef(static_cast<CUstream_st*>(stream.native()));
    };
    std::optional<Stream> stream(comm.create_stream());
    const StreamRef gone = handle(*stream);
    comm.barrier(gone);
    comm.synchronize(gone);
    stream.reset();
    auto all = calls(x, gone);
    all.emplace_back("synchronize", [gone](Communicator& c) { c.synchronize(gone); });
    all.emplace_back("copy",
                     [gone, &x](Communicator& c) { c.copy(x.data(), x.data() + 1, 4, gone); });
    for (const auto& [name, made] : all) {
      const auto& call = made;
      expect_error(error_of([&] { call(comm); }), ErrorCode::invalid_argument,
                   testing::ContainsRegex(name + ": rank [01]: 0x.* is no stream"));
    }
    expect_invalid(
        [&] {
          const Group group;
          comm.barrier(gone);
        },
        "is no stream");
    expect_invalid([&] { comm.barrier(each_threads_own); }, "is no stream");
    // A stream is as good on another communicator, and in another thread than the one that has
    // made it.
    Communicator other = comm.duplicate();
    const Stream alive = comm.create_stream();
    other.barrier(alive);
    std::thread([&] { other.synchronize(alive); }).join();
    EXPECT_EQ(comm.statistics().calls, 1u);
  });
}

}  // namespace
}  // namespace plait::test
