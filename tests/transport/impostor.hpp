// A rank without a proxy, for tests of what a proxy makes of its peer.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bootstrap/thread_ranks.hpp"
#include "transport/frame.hpp"
#include "transport/lanes.hpp"
#include "transport/peer.hpp"

namespace plait::transport {

/// A peer without a proxy: it says who it is as one would, and then what the test wants.
class Impostor {
 public:
  static constexpr int rank = 1;

  explicit Impostor(const Address& address) : listener_(transport_->listen()), address_(address) {}
  Address address() const { return listener_->address(); }

  void connect(PeerHello::Use use) {
    auto& flow = flows_.emplace_back();
    wait_until(*transport_, [&] { return (flow = transport_->connect(address_)) != nullptr; });
    say(*flow, PeerHello{rank, use});
  }
  /// The proxy's own flow of frames, whose hello it takes.
  std::unique_ptr<ReceiveFlow> accept() {
    std::unique_ptr<ReceiveFlow> flow;
    wait_until(*transport_, [&] { return (flow = listener_->accept()) != nullptr; });
    EXPECT_EQ(hear(*flow).size(), sizeof(PeerHello));
    return flow;
  }
  SendFlow& frames() { return *flows_.front(); }
  void send_frame(std::span<const std::byte> frame) { say(frames(), frame.data(), frame.size()); }
  /// Over the connection that was made second.
  void send_data(std::span<const std::byte> data) { say(*flows_[1], data.data(), data.size()); }
  void say(SendFlow& flow, const PeerHello& hello) { say(flow, &hello, sizeof hello); }
  void say(SendFlow& flow, const FrameEntry& entry, std::span<const std::byte> data = {}) {
    std::vector<std::byte> frame(frame_bytes);
    FrameWriter writer(frame);
    writer.add(entry, data);
    say(flow, frame.data(), writer.size());
  }
  /// The next message.
  std::vector<std::byte> hear(ReceiveFlow& flow) {
    Buffer words(flow, frame_bytes);
    const Request request = receive(*transport_, flow, words, frame_bytes);
    words.bytes.resize(finish(*transport_, flow, request));
    return words.bytes;
  }
  void vanish() {
    flows_.clear();
    listener_.reset();
    transport_.reset();
  }

 private:
  void say(SendFlow& flow, const void* data, std::size_t bytes) {
    Buffer words(flow, bytes);
    std::memcpy(words.bytes.data(), data, bytes);
    finish(*transport_, flow, send(*transport_, flow, words, bytes));
  }

  std::unique_ptr<Transport> transport_ = make_sockets();
  std::unique_ptr<Listener> listener_;
  Address address_;
  std::vector<std::unique_ptr<SendFlow>> flows_;
};

/// Rank 0 is a proxy, which `body` may destroy; it gets it and an impostor in the place of rank 1.
inline void with_leaving_rank(
    const std::function<void(std::unique_ptr<TestRank>&, Impostor&)>& body,
    const LaneShape& shape = {}) {
  run_ranks(2, [&](std::unique_ptr<Bootstrap>& ranks) {
    if (ranks->rank() == 1) {
      ranks->all_gather(Address{});  // the impostor's, which rank 0 has from `give_address`
      ranks->barrier();
      return;
    }
    auto rank = std::make_unique<TestRank>(*ranks, shape, [](const Address& of_rank) {
      auto impostor = std::make_shared<Impostor>(of_rank);
      return std::pair(impostor->address(), std::shared_ptr<void>(impostor));
    });
    const auto stranger = rank->stranger();
    body(rank, *static_cast<Impostor*>(stranger.get()));
    rank.reset();
    ranks->barrier();
  });
}
inline void with_impostor(const std::function<void(TestRank&, Impostor&)>& body,
                          const LaneShape& shape = {}) {
  with_leaving_rank(
      [&](std::unique_ptr<TestRank>& rank, Impostor& impostor) { body(*rank, impostor); }, shape);
}

}  // namespace plait::transport
