// Proxies of ranks that are threads, and lanes whose "kernels" are the test.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/bootstrap.hpp"
#include "transport/flows.hpp"
#include "transport/frame.hpp"
#include "transport/plugin/plugin_transport.hpp"
#include "transport/proxy.hpp"
#include "transport/socket/socket_transport.hpp"
#include "transport/test_plugin_files.hpp"

namespace plait::transport {

constexpr plait::detail::Secret secret{{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}};

inline std::unique_ptr<Transport> make_sockets() {
  return make_socket_transport({.secret = secret, .connections = 2, .address = std::nullopt});
}

/// Slots of this size hold only chunks that travel in frames.
inline constexpr std::size_t small_slot = most_inline_bytes;

/// What all lanes of a test have in common.
struct LaneShape {
  unsigned channels = 2;
  std::uint32_t slots = 4;
  std::size_t slot_bytes = 12 << 10;
  std::uint32_t counters_begin = 0;
  /// Some chunks of all sizes lie in device memory, which the network plug-in must reach.
  bool uses_device = false;
  std::uint32_t credit_flags = 0;  // `ChunkNote::credit_may_wait` or `credit_in_bulk`
  bool is_checked = false;
  int plugin = 0;  // of this version carries the messages; 0: sockets
};

/// Memory of the host for a device's, at addresses where a touch ends the test. The plug-in finds
/// it `device_shift` bytes behind them.
class DeviceSlots {
 public:
  explicit DeviceSlots(std::size_t bytes) : bytes_(bytes) {
    void* const all = mmap(nullptr, size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    address_ = static_cast<std::byte*>(all);
    EXPECT_NE(all, MAP_FAILED);
    EXPECT_LT(bytes, device_shift);
    EXPECT_EQ(mprotect(memory(), bytes_, PROT_READ | PROT_WRITE), 0);
  }
  ~DeviceSlots() { munmap(address_, size()); }
  DeviceSlots(const DeviceSlots&) = delete;
  DeviceSlots& operator=(const DeviceSlots&) = delete;

  static constexpr std::size_t device_shift = std::size_t{64} << 20;
  std::byte* address() const { return address_; }
  std::byte* memory() const { return address_ + device_shift; }

 private:
  std::size_t size() const { return device_shift + bytes_; }

  std::size_t bytes_;
  std::byte* address_;
};

inline std::unique_ptr<Transport> make_transport(const LaneShape& shape) {
  if (shape.plugin == 0) return make_sockets();
  return make_plugin_transport(test::test_plugin(test::plugin_of_version(shape.plugin)), 0);
}

/// For tests over sockets, and over rough plug-ins of all versions.
inline constexpr int rough_or_sockets[] = {0, 8, 9, 10, 11, 12};
inline constexpr auto name_of_plugin = [](const auto& instance) {
  return instance.param == 0 ? "sockets" : "v" + std::to_string(instance.param);
};

/// The memory between a rank and a peer, and the kernel's side of it: as `BlockChannels`, with
/// chunks numbered from 0 for the whole test.
class TestLane {
 public:
  TestLane(int rank, int peer, const LaneShape& shape)
      : rank_(rank),
        peer_(peer),
        shape_(shape),
        outgoing_(shape.channels * shape.slots * shape.slot_bytes),
        incoming_(outgoing_.size()),
        device_outgoing_(outgoing_.size()),
        device_incoming_(outgoing_.size()),
        out_signals_(shape.channels, {shape.counters_begin, shape.counters_begin}),
        in_signals_(out_signals_),
        notes_(std::size_t{shape.channels} * chunk_notes),
        sent_(shape.channels),
        received_(shape.channels) {}

  int peer() const { return peer_; }
  Lane lane(const Address& address) {
    return {.peer = peer_,
            .address = &address,
            .channels = shape_.channels,
            .channel_bytes = shape_.slots * shape_.slot_bytes,
            .outgoing = outgoing_.data(),
            .out_signals = out_signals_.data(),
            .notes = notes_.data(),
            .incoming = incoming_.data(),
            .in_signals = in_signals_.data(),
            .device_outgoing = shape_.uses_device ? device_outgoing_.address() : nullptr,
            .device_incoming = shape_.uses_device ? device_incoming_.address() : nullptr,
            .device_kind = MemoryKind::cuda,
            .is_checked = shape_.is_checked,
            .counters_begin = shape_.counters_begin};
  }

  /// The size of chunk k of a channel: none, small, or up to a slot.
  std::size_t size_of(int from, int to, unsigned channel, std::uint32_t k) const {
    const std::size_t h = mixed(from, to, channel, k);
    if (h % 8 == 0) return 0;
    return h % 8 < 5 ? h / 8 % most_small : h / 8 % (shape_.slot_bytes + 1);
  }
  std::uint32_t sent(unsigned channel) const { return sent_[channel]; }
  std::uint32_t received(unsigned channel) const { return received_[channel]; }
  bool may_send(unsigned channel) {
    const std::uint32_t emptied = acquired(in_signals_[channel].consumed) - shape_.counters_begin;
    return sent_[channel] - emptied < shape_.slots;
  }
  /// The receiver has emptied all slots.
  bool is_all_taken(unsigned channel) {
    return acquired(in_signals_[channel].consumed) - shape_.counters_begin == sent_[channel];
  }
  bool has_arrived(unsigned channel) {
    const std::uint32_t there = acquired(in_signals_[channel].published) - shape_.counters_begin;
    return static_cast<std::int32_t>(there - received_[channel]) > 0;
  }
  /// Fills the next slot of a channel, and raises the counter unless that comes later.
  void send(unsigned channel, bool raises = true) {
    const std::uint32_t k = sent_[channel]++, value = shape_.counters_begin + k + 1;
    const std::size_t bytes = size_of(rank_, peer_, channel, k);
    const bool on_device = is_on_device(rank_, peer_, channel, k);
    std::byte* const slot =
        (on_device ? device_outgoing_.memory() : outgoing_.data()) + place(channel, k);
    for (std::size_t at = 0; at < bytes; ++at) slot[at] = content(rank_, peer_, channel, k, at);
    notes_[channel * chunk_notes + value % chunk_notes] = {
        (on_device ? ChunkNote::on_device : 0) + shape_.credit_flags +
            k % shape_.slots * static_cast<std::uint32_t>(shape_.slot_bytes),
        static_cast<std::uint32_t>(bytes)};
    if (raises) raise(channel);
  }
  void raise(unsigned channel) {
    release(out_signals_[channel].published, shape_.counters_begin + sent_[channel]);
  }
  /// Checks and empties the slot of the next chunk.
  void receive(unsigned channel) {
    const std::uint32_t k = received_[channel]++;
    std::byte* const slot =
        (is_on_device(peer_, rank_, channel, k) ? device_incoming_.memory() : incoming_.data()) +
        place(channel, k);
    const std::size_t bytes = size_of(peer_, rank_, channel, k);
    for (std::size_t at = 0; at < bytes; ++at)
      if (slot[at] != content(peer_, rank_, channel, k, at)) {
        ADD_FAILURE() << "rank " << rank_ << ": chunk " << k << " of channel " << channel
                      << " from " << peer_ << ": byte " << at << " of " << bytes;
        break;
      }
    std::memset(slot, 0xee, bytes);
    release(out_signals_[channel].consumed, shape_.counters_begin + k + 1);
  }

 private:
  static constexpr std::size_t most_small = 300;

  static std::size_t mixed(int from, int to, unsigned channel, std::uint32_t k) {
    std::uint64_t h = (static_cast<std::uint64_t>(from) * 16 + static_cast<std::uint64_t>(to)) *
                      0x9e3779b97f4a7c15u;
    h = (h ^ (std::uint64_t{channel} << 32 | k)) * 0xbf58476d1ce4e5b9u;
    return h >> 20;
  }
  bool is_on_device(int from, int to, unsigned channel, std::uint32_t k) const {
    return shape_.uses_device && mixed(from, to, channel, k) / 64 % 2 != 0;
  }
  static std::byte content(int from, int to, unsigned channel, std::uint32_t k, std::size_t at) {
    return static_cast<std::byte>(mixed(from, to, channel, k) + at * 13);
  }
  std::size_t place(unsigned channel, std::uint32_t k) const {
    return (std::size_t{channel} * shape_.slots + k % shape_.slots) * shape_.slot_bytes;
  }
  static std::uint32_t acquired(std::uint32_t& word) {
    return std::atomic_ref(word).load(std::memory_order_acquire);
  }
  static void release(std::uint32_t& word, std::uint32_t value) {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }

  int rank_, peer_;
  LaneShape shape_;
  std::vector<std::byte> outgoing_, incoming_;
  DeviceSlots device_outgoing_, device_incoming_;
  std::vector<ChannelSignals> out_signals_, in_signals_;
  std::vector<ChunkNote> notes_;
  std::vector<std::uint32_t> sent_, received_;
};

/// A rank: its proxy, and a lane to each of the others.
class TestRank {
 public:
  /// Collective. `replace`, if any, makes another listener from this rank's address, which takes
  /// the place of all peers, and what it needs.
  using Replace = std::function<std::pair<Address, std::shared_ptr<void>>(const Address& of_rank)>;
  TestRank(Bootstrap& ranks, const LaneShape& shape, const Replace& replace = {})
      : rank_(ranks.rank()), shape_(shape), proxy_(make_transport(shape), ranks.rank()) {
    addresses_ = ranks.all_gather(proxy_.address());
    if (replace) {
      const auto [address, stranger] = replace(proxy_.address());
      addresses_.assign(addresses_.size(), address);
      stranger_ = stranger;
    }
    for (int peer = 0; peer < ranks.size(); ++peer)
      if (peer != rank_) lanes_.push_back(std::make_unique<TestLane>(rank_, peer, shape));
    const auto lane_to = [this](int peer) -> std::optional<Lane> {
      for (const auto& lane : lanes_)
        if (lane->peer() == peer) return lane->lane(addresses_[static_cast<std::size_t>(peer)]);
      return std::nullopt;
    };
    proxy_.start(ranks.size(), lane_to,
                 {.hear =
                      [this](int peer, std::span<const std::byte> words) {
                        const std::lock_guard lock(mutex_);
                        heard_.emplace_back(
                            peer,
                            std::string(reinterpret_cast<const char*>(words.data()), words.size()));
                      },
                  .lose =
                      [this](int peer, const Error&) {
                        const std::lock_guard lock(mutex_);
                        lost_.push_back(peer);
                      },
                  .unanswered =
                      [this](int, const std::string& why) {
                        const std::lock_guard lock(mutex_);
                        unanswered_.push_back(why);
                      }});
  }
  ~TestRank() { proxy_.stop(patience); }
  TestRank(const TestRank&) = delete;
  TestRank& operator=(const TestRank&) = delete;

  int number() const { return rank_; }
  Proxy& proxy() { return proxy_; }
  const std::shared_ptr<void>& stranger() const { return stranger_; }
  TestLane& lane(std::size_t i) { return *lanes_[i]; }
  std::vector<std::pair<int, std::string>> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  std::vector<int> lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  std::vector<std::string> unanswered() const {
    const std::lock_guard lock(mutex_);
    return unanswered_;
  }

  /// Calls `is_done` and `between` until it is true. False, and a failure, if that takes too long.
  template <class Condition, class Between>
  bool wait(const Condition& is_done, const Between& between) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!is_done()) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "rank " << rank_ << " waited for too long";
        return false;
      }
      between();
    }
    return true;
  }
  template <class Condition>
  bool wait(const Condition& is_done) {
    return wait(is_done, [] { std::this_thread::sleep_for(100us); });
  }

  /// Sends `chunks` chunks through every channel to every peer, receives as many, and waits until
  /// all of its own have been emptied. `between` is called while there is nothing to do.
  template <class Between>
  bool exchange(std::uint32_t chunks, const Between& between) {
    return wait(
        [&] {
          bool is_done = true, moved = false;
          for (const auto& lane : lanes_)
            for (unsigned channel = 0; channel < shape_.channels; ++channel) {
              if (lane->sent(channel) < chunks && lane->may_send(channel)) {
                lane->send(channel);
                moved = true;
              }
              if (lane->has_arrived(channel)) {
                lane->receive(channel);
                moved = true;
              }
              is_done = is_done && lane->received(channel) == chunks &&
                        lane->sent(channel) == chunks && lane->is_all_taken(channel);
            }
          if (moved) idle_ = 0;
          return is_done;
        },
        [&] {
          if (++idle_ > 3) between();
        });
  }

 private:
  int rank_;
  LaneShape shape_;
  std::vector<std::unique_ptr<TestLane>> lanes_;
  mutable std::mutex mutex_;  // of what the proxy has said
  std::vector<std::pair<int, std::string>> heard_;
  std::vector<int> lost_;
  std::vector<std::string> unanswered_;
  int idle_ = 0;
  std::shared_ptr<void> stranger_;
  std::vector<Address> addresses_;
  Proxy proxy_;  // last: it ends first
};

}  // namespace plait::transport
