// A flow that this rank is connecting.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "transport/socket/flow_door.hpp"
#include "transport/socket/waiter.hpp"
#include "transport/socket/wire.hpp"

namespace plait::transport {

/// Calls a listener once per connection of the flow, and shows and sees the secret on each.
class FlowCall {
 public:
  /// `number`: of the listener.
  FlowCall(const plait::detail::Endpoint& to, std::uint64_t number,
           const plait::detail::Secret& secret, std::size_t connections,
           std::shared_ptr<Waiter> waiter);

  /// The connections, once the other rank has answered on all of them. Never waits. Throws
  /// Error(rank_lost) if no rank of the group listens there, and Error(bootstrap) if the system
  /// refuses.
  std::optional<FlowSockets> advance();
  /// Half a second after the call, while the system there has not answered it: "connecting to
  /// 10.0.0.2:4711: no answer", and what helps. Else empty.
  std::string unanswered() const;

 private:
  struct Line {
    WatchedSocket socket;
    bool connected = false, complete = false;
    std::size_t sent = 0, received = 0;
    std::array<std::byte, sizeof(FlowAnswer)> answer;
    int tries = 0;
  };
  void dial(Line& line);
  void advance(std::size_t index);
  /// The connection has failed with this error, or 0 if the other side has closed it.
  void fail(Line& line, int error);

  plait::detail::Endpoint to_;
  FlowHello hello_;
  plait::detail::Secret secret_;
  std::shared_ptr<Waiter> waiter_;
  std::vector<Line> lines_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace plait::transport
