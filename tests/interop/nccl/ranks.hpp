// Ranks as threads of the test that know nothing but NCCL's interface, on the host target.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/backend.hpp"
#include "interop/nccl/functions.hpp"
#include "plait/stream.hpp"
#include "support/data.hpp"

namespace plait::nccl::test {

inline std::string last_error() { return ncclGetLastError(nullptr); }

/// For EXPECT_TRUE: says what went wrong.
inline testing::AssertionResult ok(Result result) {
  if (result == Result::success) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << static_cast<int>(result) << ", " << ncclGetErrorString(result) << ": " << last_error();
}
/// `result` is as wanted, and this thread's last error says `sentence`.
inline testing::AssertionResult refused(Result result, Result wanted, const std::string& sentence) {
  if (result != wanted)
    return testing::AssertionFailure() << static_cast<int>(result) << " instead of "
                                       << static_cast<int>(wanted) << ": " << last_error();
  if (last_error().find(sentence) == std::string::npos)
    return testing::AssertionFailure() << "the error says: " << last_error();
  return testing::AssertionSuccess();
}

#define OK(...) ASSERT_TRUE(ok(__VA_ARGS__))
#define EXPECT_OK(...) EXPECT_TRUE(ok(__VA_ARGS__))
/// The call is refused as a wrong argument, for this reason.
#define EXPECT_INVALID(CALL, SENTENCE) \
  EXPECT_TRUE(refused(CALL, Result::invalid_argument, SENTENCE))

inline IdBytes new_id() {
  IdBytes id{};
  EXPECT_OK(ncclGetUniqueId(&id));
  return id;
}

inline Config new_config(int blocking = unset) {
  Config config{};
  config.size = sizeof(Config);
  config.magic = magic_of_config;
  config.version = version;
  config.blocking = blocking;
  return config;
}

inline CallConfig new_call_config() {
  CallConfig config{};
  config.size = sizeof(CallConfig);
  config.magic = magic_of_config;
  config.version = 23200;
  config.force_algorithms = 1;
  return config;
}

/// Test data, different for each call, rank and place.
inline std::uint64_t test_hash(int seed, int rank, std::size_t i) {
  return plait::test::hash(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(rank), i);
}
template <class T>
T wrapped_sum(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T>
T wrapped_product(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Runs `body(rank)` on a thread each and waits for all.
inline void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// Runs `body(rank, comm)` on a thread each, with a communicator of all, which the body ends.
inline void on_ranks_that_end(int ranks, const std::function<void(int, CommHandle)>& body) {
  const IdBytes id = new_id();
  on_threads(ranks, [&](int rank) {
    CommHandle comm = nullptr;
    OK(ncclCommInitRank(&comm, ranks, id, rank));
    body(rank, comm);
  });
}
/// The same, and ends the communicator afterwards.
inline void on_ranks(int ranks, const std::function<void(int, CommHandle)>& body) {
  on_ranks_that_end(ranks, [&](int rank, CommHandle comm) {
    body(rank, comm);
    EXPECT_OK(ncclCommDestroy(comm));
  });
}

inline int own_rank(CommHandle comm) {
  int rank = -1;
  EXPECT_OK(ncclCommUserRank(comm, &rank));
  return rank;
}
inline int rank_count(CommHandle comm) {
  int count = 0;
  EXPECT_OK(ncclCommCount(comm, &count));
  return count;
}
inline int device_of(CommHandle comm) {
  int device = -1;
  EXPECT_OK(ncclCommCuDevice(comm, &device));
  return device;
}

/// Communicators of ranks that one thread drives.
class OwnRanks {
 public:
  explicit OwnRanks(int ranks) : comms(static_cast<std::size_t>(ranks)) {
    EXPECT_OK(ncclCommInitAll(comms.data(), ranks, nullptr));
  }
  ~OwnRanks() {
    for (const CommHandle comm : comms)
      if (comm != nullptr) {
        EXPECT_OK(ncclCommDestroy(comm));
      }
  }
  OwnRanks(const OwnRanks&) = delete;
  OwnRanks& operator=(const OwnRanks&) = delete;
  CommHandle operator[](int rank) const { return comms[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(comms.size()); }

  std::vector<CommHandle> comms;
};

/// A stream of the host target on the device of `comm`, which calls don't wait for.
class HostStream {
 public:
  explicit HostStream(CommHandle comm)
      : backend_(open_backend(BackendKind::host, device_of(comm))), stream_(backend_) {}
  StreamHandle get() const { return static_cast<StreamHandle>(stream_.native()); }
  void synchronize() { backend_->synchronize(stream_.native()); }
  void begin_capture() { backend_->begin_capture(stream_.native()); }
  std::unique_ptr<Graph> end_capture() { return backend_->end_capture(stream_.native()); }

 private:
  std::shared_ptr<Backend> backend_;
  Stream stream_;
};

/// What ncclCommGetAsyncError says once it is no longer `now`, or after too long a time.
inline Result state_after(CommHandle comm, Result now) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Result state = now;
  while (state == now && std::chrono::steady_clock::now() < until) {
    EXPECT_OK(ncclCommGetAsyncError(comm, &state));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

/// The sum of one number, in place.
inline Result sum_up(std::int32_t& value, CommHandle comm, StreamHandle stream = nullptr) {
  return ncclAllReduce(&value, &value, 1, int32, op_sum, comm, stream);
}

/// An all-reduce of a number that depends on the rank, and its check.
inline void check_sum(CommHandle comm, int rank, int ranks) {
  std::vector<std::int32_t> data(100, rank + 1);
  OK(ncclAllReduce(data.data(), data.data(), data.size(), int32, op_sum, comm, nullptr));
  EXPECT_THAT(data, testing::Each(ranks * (ranks + 1) / 2));
}

}  // namespace plait::nccl::test
