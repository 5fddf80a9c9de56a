// What tests of transports say again and again: connect ranks, finish a request, fill a buffer.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "plait/bootstrap.hpp"
#include "support/errors.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

using namespace std::chrono_literals;

/// Longer than anything here takes, also under a sanitizer.
inline constexpr std::chrono::seconds patience{60};

/// Calls `is_done` and sleeps until it is true. False, and a failure, if that takes too long.
template <class Condition>
bool wait_until(Transport& transport, const Condition& is_done) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "waited for too long";
      return false;
    }
    transport.wait(10ms);
  }
  return true;
}

/// Bytes that differ between messages and between offsets.
struct Buffer {
  std::vector<std::byte> bytes;
  std::unique_ptr<Registration> memory;

  Buffer(Flow& flow, std::size_t size)
      : bytes(size), memory(flow.register_memory(bytes.data(), bytes.size(), MemoryKind::host)) {}
  void fill(std::uint64_t seed) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
      const Word word = word_of(seed, at);
      std::memcpy(&bytes[at], &word, std::min(sizeof word, bytes.size() - at));
    }
  }
  /// True if the first `size` bytes are those of `fill(seed)`.
  bool begins_with(std::uint64_t seed, std::size_t size) const {
    for (std::size_t at = 0; at < size; at += sizeof(Word)) {
      const Word word = word_of(seed, at);
      if (std::memcmp(&bytes[at], &word, std::min(sizeof word, size - at)) != 0) return false;
    }
    return true;
  }

 private:
  using Word = std::uint64_t;  // not byte by byte, which takes long under a sanitizer
  static Word word_of(Word seed, std::size_t at) {
    return (seed + 1) * 0x9e3779b97f4a7c15 ^ (at + 1) * 0x2545f4914f6cdd1d;
  }
};

/// Repeats isend or irecv until the flow takes it.
inline Request send(Transport& transport, SendFlow& flow, const Buffer& from, std::size_t bytes) {
  Request request = nullptr;
  wait_until(transport, [&] {
    return (request = flow.isend(from.bytes.data(), bytes, *from.memory)) != nullptr;
  });
  return request;
}
inline Request receive(Transport& transport, ReceiveFlow& flow, Buffer& to, std::size_t bytes) {
  Request request = nullptr;
  wait_until(transport,
             [&] { return (request = flow.irecv(to.bytes.data(), bytes, *to.memory)) != nullptr; });
  return request;
}
/// The size of the message.
inline std::size_t finish(Transport& transport, Flow& flow, Request request) {
  std::size_t bytes = 0;
  wait_until(transport, [&] { return flow.test(request, &bytes); });
  return bytes;
}

/// Finishes both, for ranks that do so at once: a flow may move only in its own calls, so neither
/// waits for its own message alone. The size of the received message.
inline std::size_t finish(Transport& transport, Flow& to, Request sending, Flow& from,
                          Request receiving) {
  bool sent = false, received = false;
  std::size_t bytes = 0;
  wait_until(transport, [&] {
    sent = sent || to.test(sending);
    received = received || from.test(receiving, &bytes);
    return sent && received;
  });
  return bytes;
}

/// The error of the calls of a flow says that the rank is lost, and comes in time.
inline void expect_lost(Transport& transport, const std::function<void()>& call,
                        std::chrono::seconds within = 1s) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Error> error;
  wait_until(transport, [&] { return (error = plait::test::error_of(call)).has_value(); });
  plait::test::expect_error(error, ErrorCode::rank_lost, testing::_);
  EXPECT_LT(std::chrono::steady_clock::now() - start, within);
}

/// The two ends of one connection.
struct Ends {
  std::unique_ptr<SendFlow> sender;
  std::unique_ptr<ReceiveFlow> receiver;

  /// Calls once more, and looks for the call. True once both ends are there.
  bool advance(Transport& there, Listener& listener, Ways ways = Ways::one) {
    if (!sender) sender = there.connect(listener.address(), ways);
    if (!receiver) receiver = listener.accept();
    return sender && receiver;
  }
};

/// A flow to each rank and one from each, this one included.
struct Mesh {
  std::unique_ptr<Listener> listener;
  std::vector<std::unique_ptr<SendFlow>> to;
  std::vector<std::unique_ptr<ReceiveFlow>> from;
};

/// Collective.
inline Mesh connect_all(Transport& transport, Bootstrap& ranks) {
  Mesh mesh;
  mesh.listener = transport.listen();
  const std::vector<Address> addresses = ranks.all_gather(mesh.listener->address());
  mesh.to.resize(addresses.size());
  mesh.from.resize(addresses.size());
  std::vector<std::unique_ptr<ReceiveFlow>> accepted;
  wait_until(transport, [&] {
    bool complete = true;
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      if (!mesh.to[rank]) mesh.to[rank] = transport.connect(addresses[rank]);
      complete = complete && mesh.to[rank];
    }
    while (auto flow = mesh.listener->accept()) accepted.push_back(std::move(flow));
    return complete && accepted.size() == addresses.size();
  });
  // Each rank says who it is.
  std::vector<Buffer> out, in;
  std::vector<std::pair<Flow*, Request>> requests;
  for (std::size_t at = 0; at < accepted.size(); ++at) {
    SendFlow& to = *mesh.to[at];
    ReceiveFlow& from = *accepted[at];
    out.emplace_back(to, 4).bytes[0] = static_cast<std::byte>(ranks.rank());
    requests.emplace_back(&to, send(transport, to, out.back(), 4));
    requests.emplace_back(&from, receive(transport, from, in.emplace_back(from, 4), 4));
  }
  wait_until(transport, [&] {
    std::erase_if(requests, [](const auto& one) { return one.first->test(one.second); });
    return requests.empty();
  });
  for (std::size_t at = 0; at < accepted.size(); ++at) {
    in[at].memory.reset();
    mesh.from.at(static_cast<std::size_t>(in[at].bytes[0])) = std::move(accepted[at]);
  }
  for (std::size_t rank = 0; rank < mesh.to.size(); ++rank) {
    mesh.to[rank]->expect_large();  // some transports move their bytes by threads then
    mesh.from[rank]->expect_large();
  }
  return mesh;
}

}  // namespace plait::transport
