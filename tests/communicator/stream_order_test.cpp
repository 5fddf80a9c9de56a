// The order of a communicator's calls on several streams, captures and default streams, read from
// the events of a model of a GPU.
#include "communicator/resources/stream_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "plait/error.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

/// Streams that are numbers, of which some are captured, as on a GPU; those from 100 on are default
/// streams of threads. Events say what happens.
class Captures final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  static std::uint64_t number(NativeStream stream) {
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  bool is_per_thread(NativeStream stream) const noexcept override { return number(stream) >= 100; }
  void synchronize(NativeStream stream) override {
    waits.push_back("host waits for " + std::to_string(number(stream)));
  }
  std::uint64_t identity(NativeStream stream) override {
    if (is_capturing(stream))
      throw Error(ErrorCode::backend,
                  "not of a stream that is being captured");  // as cudaStreamGetId
    return number(stream);
  }
  bool captures_spread() const noexcept override { return true; }
  bool is_capturing(NativeStream stream) override { return captured.contains(number(stream)); }
  std::uint64_t capture(NativeStream stream) override { return captured.at(number(stream)); }
  std::unique_ptr<DeviceEvent> create_event(bool) override {
    struct Noted final : DeviceEvent {
      explicit Noted(std::vector<std::string>& notes) : notes_(notes) {}
      void record(NativeStream stream) override {
        last_ = std::to_string(reinterpret_cast<std::uintptr_t>(stream));
      }
      bool done() override { return false; }
      void synchronize() override { notes_.push_back("host waits for an event of " + last_); }
      void wait_in(NativeStream stream) override {
        notes_.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + " waits for " +
                         last_);
      }
      double milliseconds_since(const DeviceEvent&) const override { return 0; }

     private:
      std::vector<std::string>& notes_;
      std::string last_ = "nothing";
    };
    return std::make_unique<Noted>(waits);
  }

  std::map<std::uint64_t, std::uint64_t> captured;  // stream -> capture
  std::vector<std::string> waits;
};

NativeStream handle(std::uintptr_t number) {
  return reinterpret_cast<NativeStream>(number);  // NOLINT(performance-no-int-to-ptr)
}

/// A call waits for the one before on another stream: captured ones for those of the same capture,
/// others for those that are not captured.
TEST(StreamOrder, IsThatOfTheCalls) {
  const auto backend = std::make_shared<Captures>(open_backend(target(), 0));
  StreamOrder order(backend);
  const auto waits = [&](std::uintptr_t stream) {
    backend->waits.clear();
    EXPECT_EQ(order.enter(handle(stream)), backend->captured.contains(stream));
    order.leave(handle(stream));
    return backend->waits;
  };
  const auto nothing = testing::IsEmpty();
  const auto only = [](const char* wait) { return testing::ElementsAre(wait); };
  EXPECT_THAT(waits(1), nothing);
  EXPECT_THAT(waits(1), nothing);
  EXPECT_THAT(waits(2), only("2 waits for 1"));
  backend->captured = {{3, 100}, {4, 100}, {5, 200}};
  EXPECT_THAT(waits(3), nothing) << "the first call of a capture";
  EXPECT_THAT(waits(4), only("4 waits for 3"));
  EXPECT_THAT(waits(4), nothing);
  EXPECT_THAT(waits(1), only("1 waits for 2")) << "not captured";
  EXPECT_THAT(waits(3), only("3 waits for 4"));
  EXPECT_THAT(waits(5), nothing) << "another capture";
  EXPECT_THAT(waits(4), nothing) << "another one again: neither graph knows when the other runs";
  backend->captured = {{3, 300}};
  EXPECT_THAT(waits(3), nothing) << "a later capture of a stream";
  backend->captured.clear();
  EXPECT_THAT(waits(3), only("3 waits for 1"));
}

/// Calls and copies of a communicator on default streams are in order, whichever threads the
/// streams belong to.
TEST(StreamOrder, TakesTheDefaultStreamsOfThreadsForOne) {
  const auto backend = std::make_shared<Captures>(open_backend(target(), 0));
  StreamOrder order(backend);
  const auto after = [&](const std::function<void()>& act) {
    backend->waits.clear();
    act();
    return std::exchange(backend->waits, {});
  };
  const auto call = [&](std::uintptr_t stream) {
    return after([&] {
      order.enter(handle(stream));
      order.leave(handle(stream));
    });
  };
  const auto copy = [&](std::uintptr_t stream) {
    return after([&] {
      order.enter_copy(handle(stream));
      order.leave_copy(handle(stream));
    });
  };
  const auto synchronize = [&](std::uintptr_t stream) {
    return after([&] { order.synchronize(handle(stream)); });
  };
  const auto nothing = testing::IsEmpty();
  EXPECT_THAT(copy(1), nothing);
  EXPECT_THAT(call(100), nothing);
  EXPECT_THAT(copy(100), nothing);
  EXPECT_THAT(call(101), testing::ElementsAre("101 waits for 100", "101 waits for 100"))
      << "the call, and the copy";
  EXPECT_THAT(copy(1), nothing) << "a copy on another stream has no order";
  EXPECT_THAT(call(1), testing::ElementsAre("1 waits for 101")) << "a call has";
  EXPECT_THAT(copy(102), testing::ElementsAre("102 waits for 101", "102 waits for 100"))
      << "but not with stream 1";
  EXPECT_THAT(call(102), testing::ElementsAre("102 waits for 1"));
  EXPECT_THAT(synchronize(102), testing::ElementsAre("host waits for 102"));
  EXPECT_THAT(synchronize(103),
              testing::ElementsAre("host waits for 103", "host waits for an event of 102",
                                   "host waits for an event of 102"));
  EXPECT_THAT(call(1), testing::ElementsAre("1 waits for 102"));
  EXPECT_THAT(synchronize(1), testing::ElementsAre("host waits for 1"));
  EXPECT_THAT(synchronize(102), testing::ElementsAre("host waits for 102"))
      << "and not for stream 1";
}

}  // namespace
}  // namespace plait::test
