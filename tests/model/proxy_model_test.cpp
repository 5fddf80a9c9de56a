// A channel between two nodes in all executions of a few chunks: a kernel fills slots, the sender's
// proxy sends them, the receiver's proxy places them, another kernel empties them, and credits go
// back. The proxies' sides are the library's (transport/peer.hpp); the network is one that reads
// a message as late as it may, when the other end takes it.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "model/explored.hpp"
#include "transport/peer.hpp"

namespace plait::test {
namespace {

using namespace transport;

/// What proxies and kernels share: the memory that flows are told of, and a lane's words. All else
/// belongs to one thread.
class Shared {
 public:
  void clear() { number_ = 0; }
  void add(const void* begin, std::size_t bytes) {
    ranges_[number_++] = {static_cast<const std::byte*>(begin), bytes};
  }
  bool has(const void* place) const {
    for (std::size_t i = 0; i < number_; ++i) {
      const auto after = static_cast<const std::byte*>(place) - ranges_[i].first;
      if (after >= 0 && static_cast<std::size_t>(after) < ranges_[i].second) return true;
    }
    return false;
  }

 private:
  std::array<std::pair<const std::byte*, std::size_t>, 100> ranges_;
  std::size_t number_ = 0;
} shared;

/// One way of a connection. Each word has one writer.
struct Wire {
  struct Message {
    const std::uint64_t* data;
    std::size_t bytes;
  };
  std::array<Message, 32> messages;
  std::uint32_t connected = 0, sent = 0, taken = 0;
};

template <class Base>
class OneWay : public Base {
 public:
  explicit OneWay(Wire& wire) : wire_(wire) {}
  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes,
                                                MemoryKind) override {
    shared.add(data, bytes);
    return std::make_unique<Registration>();
  }

 protected:
  static Request request(std::uint32_t number) {
    return reinterpret_cast<Request>(std::uintptr_t{number});
  }
  static std::uint32_t number(Request request) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(request));
  }
  Wire& wire_;
  std::uint32_t begun_ = 0;
};

class Sender final : public OneWay<SendFlow> {
 public:
  using OneWay::OneWay;
  Request isend(const void* data, std::size_t bytes, Registration&) override {
    wire_.messages[begun_] = {static_cast<const std::uint64_t*>(data), bytes};
    release(wire_.sent, ++begun_);
    return request(begun_);
  }
  bool test(Request request, std::size_t*) override {
    return acquired(wire_.taken) >= number(request);
  }
};

class Receiver final : public OneWay<ReceiveFlow> {
 public:
  using OneWay::OneWay;
  Request irecv(void* data, std::size_t, Registration&) override {
    places_[begun_++] = static_cast<std::uint64_t*>(data);
    return request(begun_);
  }
  bool test(Request request, std::size_t* received) override {
    const std::uint32_t number = this->number(request);
    if (acquired(wire_.sent) < number) return false;
    const Wire::Message message = wire_.messages[number - 1];
    for (std::size_t word = 0; word < (message.bytes + 7) / 8; ++word)
      places_[number - 1][word] = message.data[word];
    if (received != nullptr) *received = message.bytes;
    release(wire_.taken, number);
    return true;
  }

 private:
  std::array<std::uint64_t*, 64> places_{};
};

/// Frames, and chunks that travel alone.
using Wires = std::array<Wire, 2>;

class Network final : public Transport, public Listener {
 public:
  Network(Wires& out, Wires& in) : out_(out), in_(in) {}
  const Properties& properties() const override { return properties_; }
  std::unique_ptr<Listener> listen() override { return nullptr; }
  std::unique_ptr<SendFlow> connect(const Address&, Ways ways) override {
    Wire& wire = out_[ways == Ways::both ? 0 : 1];
    release(wire.connected, 1);
    return std::make_unique<Sender>(wire);
  }
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  Address address() const override { return {}; }
  std::unique_ptr<ReceiveFlow> accept() override {
    for (std::size_t i = 0; i < in_.size(); ++i)
      if (!accepted_[i] && acquired(in_[i].connected) != 0) {
        accepted_[i] = true;
        return std::make_unique<Receiver>(in_[i]);
      }
    return nullptr;
  }

 private:
  Properties properties_;
  Wires &out_, &in_;
  std::array<bool, 2> accepted_{};
};

constexpr std::uint32_t slots = 2, first = 0xffffffff;  // the counters wrap

/// The memory of a rank's lane: its kernel's side, and its proxy's.
class Side {
 public:
  Side(int rank, std::size_t chunk_words, Wires& out, Wires& in)
      : rank_(rank),
        words_(chunk_words),
        network_(out, in),
        outgoing_(slots * chunk_words),
        incoming_(slots * chunk_words),
        peer_(network_, lane(Address()), rank, counters_) {
    shared.add(outgoing_.data(), outgoing_.size() * sizeof(std::uint64_t));
    shared.add(incoming_.data(), incoming_.size() * sizeof(std::uint64_t));
    shared.add(&out_, sizeof(out_));
    shared.add(&in_, sizeof(in_));
    shared.add(&notes_, sizeof(notes_));
  }

  /// The kernel sends.
  void send(std::uint32_t chunks) {
    for (std::uint32_t k = 0; k < chunks; ++k) {
      while (k - (acquired(in_.consumed) - first) >= slots) std::this_thread::yield();
      std::uint64_t* const slot = &outgoing_[k % slots * words_];
      for (std::size_t i = 0; i < words_; ++i) slot[i] = content(k, i);
      notes_[(first + k + 1) % chunk_notes] = {
          static_cast<std::uint32_t>(k % slots * words_ * sizeof(std::uint64_t)),
          static_cast<std::uint32_t>(words_ * sizeof(std::uint64_t))};
      release(out_.published, first + k + 1);
    }
  }
  /// The kernel receives.
  void receive(std::uint32_t chunks) {
    for (std::uint32_t k = 0; k < chunks; ++k) {
      while (acquired(in_.published) - first <= k) std::this_thread::yield();
      std::uint64_t* const slot = &incoming_[k % slots * words_];
      for (std::size_t i = 0; i < words_; ++i) {
        expect(slot[i] == content(k, i), "a chunk has come that was not sent");
        slot[i] = 0;
      }
      release(out_.consumed, first + k + 1);
    }
  }
  /// The proxy, until all is sent, and `credits` have come.
  void carry(std::uint32_t published, std::uint32_t consumed, std::uint32_t credits) {
    for (;;) {
      const bool is_last = acquired(out_.published) == first + published &&
                           acquired(out_.consumed) == first + consumed &&
                           acquired(in_.consumed) == first + credits;
      bool moved = peer_.send(Peer::Credits::all);
      arrivals_.take_all(network_, rank_, [this](int) { return &peer_; });
      moved = peer_.receive(Listening{}) || moved;
      if (moved) continue;
      if (is_last && !peer_.has_unsent()) return;
      std::this_thread::yield();
    }
  }

 private:
  static std::uint64_t content(std::uint32_t k, std::size_t i) {
    return (k + 1) * 0x9e3779b97f4a7c15u + i;
  }
  Lane lane(const Address& address) {
    return {.peer = 1 - rank_,
            .address = &address,
            .channels = 1,
            .channel_bytes = slots * words_ * sizeof(std::uint64_t),
            .outgoing = reinterpret_cast<std::byte*>(outgoing_.data()),
            .out_signals = &out_,
            .notes = notes_.data(),
            .incoming = reinterpret_cast<std::byte*>(incoming_.data()),
            .in_signals = &in_,
            .counters_begin = first};
  }

  int rank_;
  std::size_t words_;
  Network network_;
  Arrivals arrivals_;
  Counters counters_;
  std::vector<std::uint64_t> outgoing_, incoming_;
  ChannelSignals out_{first, first}, in_{first, first};
  std::array<ChunkNote, chunk_notes> notes_{};
  Peer peer_;
};

template <std::size_t Words, std::uint32_t Chunks>
struct Connected {
  Connected() { shared.add(&there, sizeof(there)), shared.add(&back, sizeof(back)); }
  struct Begin {
    Begin() { shared.clear(); }
  } begin;
  Wires there, back;
  Side sender{0, Words, there, back}, receiver{1, Words, back, there};
};

template <std::size_t Words, std::uint32_t Chunks>
void explore_channel(const char* what, std::size_t sample = 0) {
  using It = Connected<Words, Chunks>;
  HostProgram program = together<It>(
      {[](It& it) { it.sender.send(Chunks); }, [](It& it) { it.sender.carry(Chunks, 0, Chunks); },
       [](It& it) { it.receiver.carry(0, Chunks, 0); },
       [](It& it) { it.receiver.receive(Chunks); }},
      0);
  program.watches = [](const void* place) { return shared.has(place); };
  explore_all(what, program, sample);
}

TEST(ProxyModel, CarriesChunksAndCredits) {
  explore_channel<2, 1>("channel between nodes: one chunk in a frame", 300);
  explore_channel<2, 3>("channel between nodes: three chunks in two slots", 300);
  explore_channel<most_inline_bytes / 8 + 1, 1>("channel between nodes: a message of its own", 100);
}

}  // namespace
}  // namespace plait::test
