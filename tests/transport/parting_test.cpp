// Two peers that exchange and part, over a network of the test's, in one thread: the test decides
// what happens next, and tries many orders.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/data.hpp"
#include "support/ranks.hpp"
#include "transport/lanes.hpp"
#include "transport/peer.hpp"

namespace plait::transport {
namespace {

/// A connection of TCP, both ways. Side 0 has called. What a side sends is under way until the
/// network delivers it, in order; what is delivered is acknowledged.
struct Wire {
  struct Way {
    std::deque<std::vector<std::byte>> under_way, there;
    bool is_ending = false;  // after what is under way
    bool has_ended = false;  // after what is there
  };
  enum class State : std::uint8_t { called, at_door, answering, open, refused };
  State state = State::called;
  Way from[2];
  bool is_closed[2] = {false, false};  // by the side
  bool is_reset[2] = {false, false};   // as the side sees it

  void close(int side) {
    is_closed[side] = true;
    if (!from[1 - side].there.empty()) return reset(side);
    from[side].is_ending = true;
  }
  /// The side was closed while something was to be read, or came: the other side can't send now.
  void reset(int side) {
    from[side].under_way.clear();
    is_reset[1 - side] = true;
    from[side].has_ended = true;
  }
};

[[noreturn]] void lose(const char* why) { throw Error(ErrorCode::rank_lost, why); }

/// A side of a wire, which closes with the last flow.
struct Side {
  Side(std::shared_ptr<Wire> w, int s) : wire(std::move(w)), side(s) {}
  ~Side() { wire->close(side); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  Wire::Way& out() const { return wire->from[side]; }
  Wire::Way& in() const { return wire->from[1 - side]; }

  std::shared_ptr<Wire> wire;
  int side;
};

class FakeSendFlow final : public SendFlow {
 public:
  explicit FakeSendFlow(std::shared_ptr<Side> side) : side_(std::move(side)) {}
  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind) override {
    return std::make_unique<Registration>();
  }
  bool test(Request, std::size_t*) override { return true; }
  Request isend(const void* data, std::size_t bytes, Registration&) override {
    if (side_->wire->is_reset[side_->side] || side_->in().has_ended) lose("broken pipe");
    const auto* const from = static_cast<const std::byte*>(data);
    side_->out().under_way.emplace_back(from, from + bytes);
    return this;
  }
  std::unique_ptr<ReceiveFlow> replies() override;
  bool is_safe() override {
    return side_->out().under_way.empty() || side_->wire->is_reset[side_->side];
  }

 private:
  std::shared_ptr<Side> side_;
};

class FakeReceiveFlow final : public ReceiveFlow {
 public:
  explicit FakeReceiveFlow(std::shared_ptr<Side> side) : side_(std::move(side)) {}
  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind) override {
    return std::make_unique<Registration>();
  }
  /// As by a network plug-in that has seen the end.
  Request irecv(void* data, std::size_t bytes, Registration&) override {
    if (side_->in().has_ended && posted_.size() >= side_->in().there.size()) lose("it has ended");
    return &posted_.emplace_back(Posted{static_cast<std::byte*>(data), bytes});
  }
  /// Requests are tested in their order.
  bool test(Request request, std::size_t* received) override {
    EXPECT_EQ(request, &posted_.front());
    auto& there = side_->in().there;
    if (there.empty()) {
      if (side_->in().has_ended) lose("the other rank has closed it");
      return false;
    }
    EXPECT_LE(there.front().size(), posted_.front().bytes);
    std::memcpy(posted_.front().data, there.front().data(), there.front().size());
    if (received != nullptr) *received = there.front().size();
    there.pop_front();
    posted_.pop_front();
    return true;
  }
  std::unique_ptr<SendFlow> reply() override { return std::make_unique<FakeSendFlow>(side_); }

 private:
  struct Posted {
    std::byte* data;
    std::size_t bytes;
  };
  std::shared_ptr<Side> side_;
  std::deque<Posted> posted_;
};

std::unique_ptr<ReceiveFlow> FakeSendFlow::replies() {
  return std::make_unique<FakeReceiveFlow>(side_);
}

/// All wires between two ranks, and their doors.
struct Network {
  struct Call {
    int from;
    std::shared_ptr<Wire> wire;
  };
  std::vector<Call> calls;
  bool is_listening[2] = {true, true};

  /// Everything that the network can do next.
  std::vector<std::function<void()>> events() {
    std::vector<std::function<void()>> all;
    for (const Call& call : calls) {
      Wire& wire = *call.wire;
      if (wire.state == Wire::State::called)
        all.emplace_back([&wire, this, to = 1 - call.from] {
          wire.state = is_listening[to] ? Wire::State::at_door : Wire::State::refused;
        });
      if (wire.state == Wire::State::answering)
        all.emplace_back([&wire] { wire.state = Wire::State::open; });
      // Nothing comes before the call, and nothing of the called rank before its answer.
      for (int side = 0; side < 2; ++side)
        if (wire.state == (side == 0 ? Wire::State::called : Wire::State::answering)) continue;
        else if (!wire.from[side].under_way.empty() ||
                 (wire.from[side].is_ending && !wire.from[side].has_ended))
          all.emplace_back([&wire, side] { deliver(wire, side); });
    }
    return all;
  }
  /// A rank ends, and its network with it, as in a container: what is under way is lost.
  void end(int rank) {
    for (const Call& call : calls) {
      const int side = call.from == rank ? 0 : 1;
      if (!call.wire->from[side].under_way.empty()) call.wire->reset(side);
    }
  }
  static void deliver(Wire& wire, int side) {
    Wire::Way& way = wire.from[side];
    if (way.under_way.empty()) {
      way.has_ended = true;
      return;
    }
    way.there.push_back(std::move(way.under_way.front()));
    way.under_way.pop_front();
    if (wire.is_closed[1 - side]) {
      way.there.clear();
      wire.reset(1 - side);
    }
  }
};

class FakeTransport final : public Transport {
 public:
  FakeTransport(Network& network, int rank) : network_(network), rank_(rank) {}
  ~FakeTransport() override { give_up({}, Ways::both); }
  const Properties& properties() const override { return properties_; }
  std::unique_ptr<Listener> listen() override;
  std::unique_ptr<SendFlow> connect(const Address&, Ways) override {
    if (!call_) {
      call_ = std::make_shared<Wire>();
      network_.calls.push_back({rank_, call_});
    }
    if (call_->state == Wire::State::refused) {
      call_.reset();
      lose("connection refused");
    }
    if (call_->state != Wire::State::open) return nullptr;
    return std::make_unique<FakeSendFlow>(std::make_shared<Side>(std::move(call_), 0));
  }
  void give_up(const Address&, Ways) override {
    if (call_) call_->close(0);
    call_.reset();
  }
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override {}

 private:
  Network& network_;
  int rank_;
  Properties properties_;
  std::shared_ptr<Wire> call_;
};

class FakeListener final : public Listener {
 public:
  FakeListener(Network& network, int rank) : network_(network), rank_(rank) {}
  ~FakeListener() override {
    network_.is_listening[rank_] = false;
    for (const auto& call : network_.calls)
      if (call.from != rank_ && call.wire->state == Wire::State::at_door)
        call.wire->state = Wire::State::refused;
  }
  FakeListener(const FakeListener&) = delete;
  FakeListener& operator=(const FakeListener&) = delete;
  Address address() const override { return {}; }
  std::unique_ptr<ReceiveFlow> accept() override {
    for (const auto& call : network_.calls) {
      if (call.from == rank_ || call.wire->state != Wire::State::at_door) continue;
      call.wire->state = Wire::State::answering;
      return std::make_unique<FakeReceiveFlow>(std::make_shared<Side>(call.wire, 1));
    }
    return nullptr;
  }

 private:
  Network& network_;
  int rank_;
};

std::unique_ptr<Listener> FakeTransport::listen() {
  return std::make_unique<FakeListener>(network_, rank_);
}

/// What a rank does: so many chunks to the other, and so many words, which need no answer.
struct Part {
  std::uint32_t chunks = 0;
  int words = 0;
};

/// A rank that leaves once it has received and sent all, as a communicator that is destroyed once
/// its last kernel has ended.
class LeavingRank {
 public:
  LeavingRank(Network& network, int rank, const Part& own, const Part& other)
      : network_(network),
        own_(own),
        other_(other),
        lane_(rank, 1 - rank, {.slot_bytes = small_slot}) {
    transport_ = std::make_unique<FakeTransport>(network, rank);
    listener_ = transport_->listen();
    peer_ = std::make_unique<Peer>(*transport_, lane_.lane({}), rank, counters_);
  }
  bool is_gone() const { return peer_ == nullptr; }
  bool has_received_all() const { return lane_.received(0) == other_.chunks; }
  /// A round of the proxy, and of the kernel.
  void step() try {
    if (lane_.sent(0) < own_.chunks && lane_.may_send(0)) lane_.send(0);
    for (; own_.words > 0; --own_.words) peer_->tell(std::vector<std::byte>(8));
    if (lane_.has_arrived(0)) lane_.receive(0);
    const bool is_done =
        has_received_all() && lane_.sent(0) == own_.chunks && lane_.is_all_taken(0);
    if (is_done && !is_leaving_) peer_->say_farewell(), is_leaving_ = true;
    peer_->send(Peer::Credits::all);
    arrivals_.take_all(*listener_, lane_.peer(), [this](int) { return peer_.get(); });
    if (!peer_->receive({})) peer_->judge(!has_received_all());
    if (is_leaving_ && arrivals_.is_empty() && peer_->has_left()) leave();
  } catch (const Error& error) {
    if (is_leaving_) return peer_->lose();  // as the proxy does
    lost = error.what();
    leave();
  }
  void leave() {
    peer_.reset();
    arrivals_ = {};
    listener_.reset();
    transport_.reset();
    network_.end(lane_.peer() == 0 ? 1 : 0);
  }
  std::string lost;

 private:
  Network& network_;
  Part own_, other_;
  Counters counters_;
  TestLane lane_;
  bool is_leaving_ = false;
  std::unique_ptr<FakeTransport> transport_;
  std::unique_ptr<Listener> listener_;
  Arrivals arrivals_;
  std::unique_ptr<Peer> peer_;
};

/// Chooses what happens next: from `choices`, then in turn; and notes how many ways there were.
struct Schedule {
  std::vector<std::size_t> choices, ways;
  std::size_t next(std::size_t number) {
    const std::size_t step = ways.size();
    ways.push_back(number);
    const std::size_t deviation = step < choices.size() ? choices[step] : 0;
    return (step + deviation) % number;
  }
};

/// Empty, or what was wrong.
std::string play(const std::array<Part, 2>& parts, Schedule& schedule) {
  Network network;
  LeavingRank first(network, 0, parts[0], parts[1]), second(network, 1, parts[1], parts[0]);
  constexpr int most_steps = 2000;
  for (int step = 0; step < most_steps; ++step) {
    auto events = network.events();
    for (LeavingRank* const rank : {&first, &second})
      if (!rank->is_gone()) events.emplace_back([rank] { rank->step(); });
    if (first.is_gone() && second.is_gone()) break;
    events[schedule.next(events.size())]();
    for (LeavingRank* const rank : {&first, &second})
      if (!rank->lost.empty()) return "lost: " + rank->lost;
  }
  if (!first.is_gone() || !second.is_gone()) return "not all have left";
  return first.has_received_all() && second.has_received_all() ? "" : "a chunk is missing";
}

std::string described(const std::array<Part, 2>& parts, const Schedule& schedule) {
  std::string text;
  for (const Part& part : parts)
    text += std::to_string(part.chunks) + " chunks, " + std::to_string(part.words) + " words; ";
  for (const std::size_t choice : schedule.choices) text += " " + std::to_string(choice);
  return text;
}

class Parting : public testing::TestWithParam<std::array<Part, 2>> {};
INSTANTIATE_TEST_SUITE_P(
    All, Parting,
    testing::Values(std::array{Part{1, 0}, Part{1, 0}}, std::array{Part{1, 1}, Part{1, 0}},
                    std::array{Part{1, 0}, Part{0, 0}}, std::array{Part{0, 0}, Part{1, 0}},
                    std::array{Part{1, 0}, Part{0, 1}}, std::array{Part{0, 1}, Part{1, 0}},
                    std::array{Part{0, 1}, Part{0, 1}}, std::array{Part{0, 1}, Part{0, 0}},
                    std::array{Part{3, 1}, Part{3, 1}}));

/// All orders that differ from taking turns in at most so many places.
TEST_P(Parting, InAllOrdersNearTakingTurns) {
  constexpr int most_deviations = test::under_tsan ? 1 : 2;
  std::uint64_t plays = 0;
  const std::function<bool(std::vector<std::size_t>, int)> explore =
      [&](std::vector<std::size_t> choices, int left) {
        Schedule schedule{.choices = choices, .ways = {}};
        const std::string wrong = play(GetParam(), schedule);
        ++plays;
        if (!wrong.empty()) {
          ADD_FAILURE() << wrong << "; " << described(GetParam(), schedule);
          return false;
        }
        if (left == 0) return true;
        const std::size_t begin = choices.size();
        for (std::size_t step = begin; step < schedule.ways.size(); ++step)
          for (std::size_t other = 1; other < schedule.ways[step]; ++other) {
            std::vector<std::size_t> more = choices;
            more.resize(step, 0);
            more.push_back(other);
            if (!explore(std::move(more), left - 1)) return false;
          }
        return true;
      };
  EXPECT_TRUE(explore({}, most_deviations));
  EXPECT_GT(plays, test::under_tsan ? 5u : 50u);
}

/// Where some of what can happen is much slower than the rest, which changes now and then.
TEST_P(Parting, InRandomOrders) {
  constexpr std::uint64_t times = test::under_tsan ? 300 : 6000;
  for (std::uint64_t seed = 0; seed < times; ++seed) {
    Schedule schedule;
    for (std::uint64_t step = 0; step < 400; ++step) {
      const std::uint64_t h = test::hash(seed, step / (1 + seed % 7), step % 2 * (seed % 3));
      schedule.choices.push_back(h >> 8);
    }
    const std::string wrong = play(GetParam(), schedule);
    ASSERT_EQ(wrong, "") << "seed " << seed << "; " << described(GetParam(), {});
  }
}

}  // namespace
}  // namespace plait::transport
