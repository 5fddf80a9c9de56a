// Where the connections of flows arrive and are put together.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "transport/socket/waiter.hpp"
#include "transport/socket/wire.hpp"

namespace plait::transport {

/// How long this process may fail to open files. Meanwhile calls wait at the listener, and this
/// rank makes none.
inline constexpr std::chrono::seconds patience_with_files{10};

/// The connections of a flow, in the order of their index.
using FlowSockets = std::vector<WatchedSocket>;

/// A listener that tells ranks from strangers. Each caller that has not shown the secret yet has
/// five seconds and little memory, and the oldest go if there are too many. No call waits.
class FlowDoor {
 public:
  /// Listens at `own`. Throws Error(bootstrap).
  FlowDoor(const plait::detail::Endpoint& own, const plait::detail::Secret& secret,
           std::shared_ptr<Waiter> waiter);

  const plait::detail::Endpoint& endpoint() const { return endpoint_; }
  std::uint64_t number() const { return number_; }

  /// Takes calls and answers those of ranks. Throws Error(bootstrap) if the system refuses, or lets
  /// this process open no file for ten seconds.
  void advance();
  /// The connections of the flow that was first complete, or none.
  FlowSockets take();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Caller {
    WatchedSocket socket;
    Time since;
    std::array<std::byte, sizeof(FlowHello)> bytes;
    std::size_t received = 0;
  };
  struct Incomplete {
    FlowSockets sockets;
    std::size_t missing;
    Time since;
  };

  void accept_all();
  void hear_all();
  void admit(Caller& caller);

  std::uint64_t number_;
  plait::detail::Secret secret_;
  std::shared_ptr<Waiter> waiter_;
  WatchedSocket listener_;
  plait::detail::Endpoint endpoint_;
  std::deque<Caller> callers_;  // the oldest first
  std::optional<Time> out_of_files_since_;
  std::map<std::array<std::uint64_t, 2>, Incomplete> incomplete_;
  std::deque<FlowSockets> complete_;
};

/// 64 bits from the system's source of secrets. Throws Error(bootstrap).
std::uint64_t random_word();

}  // namespace plait::transport
