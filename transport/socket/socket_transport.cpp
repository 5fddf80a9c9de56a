#include "transport/socket/socket_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"
#include "transport/socket/flow_call.hpp"
#include "transport/socket/flow_door.hpp"
#include "transport/socket/flow_ends.hpp"
#include "transport/socket/waiter.hpp"
#include "transport/socket/wire.hpp"

namespace plait::transport {
namespace {

using plait::detail::Endpoint;

Place place_of(const Address& address) {
  Place place;
  std::memcpy(static_cast<void*>(&place), address.bytes.data(), sizeof place);
  if (place.magic != place_magic)
    throw Error(ErrorCode::invalid_argument, "connect: this is not an address of sockets");
  return place;
}

/// Doors that are open. Each is advanced by `connect`, too: otherwise two ranks that call each
/// other before either accepts would wait for ever.
using Doors = std::vector<FlowDoor*>;

class SocketListener final : public Listener {
 public:
  SocketListener(std::unique_ptr<FlowDoor> door, std::shared_ptr<Doors> doors,
                 std::shared_ptr<FlowThreads> threads)
      : door_(std::move(door)), doors_(std::move(doors)), threads_(std::move(threads)) {
    doors_->push_back(door_.get());
  }
  ~SocketListener() override { std::erase(*doors_, door_.get()); }
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  Address address() const override {
    const Place place{place_magic, door_->number(), door_->endpoint()};
    Address address;
    std::memcpy(address.bytes.data(), &place, sizeof place);
    return address;
  }
  std::unique_ptr<ReceiveFlow> accept() override {
    door_->advance();
    FlowSockets sockets = door_->take();
    if (sockets.empty()) return nullptr;
    return std::make_unique<SocketReceiveFlow>(std::make_shared<FlowSockets>(std::move(sockets)),
                                               threads_);
  }

 private:
  std::unique_ptr<FlowDoor> door_;
  std::shared_ptr<Doors> doors_;
  std::shared_ptr<FlowThreads> threads_;
};

/// Megabits per second of an interface, or 0: the loopback device and many virtual ones have none.
double speed_of(const std::string& interface) {
  double speed = 0;
  const StandardFdsTaken taken;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return std::max(speed, 0.0);
}

class SocketTransport final : public Transport {
 public:
  explicit SocketTransport(const SocketOptions& options)
      : options_(options),
        own_(options.address ? *options.address : plait::detail::choose_own_address()),
        waiter_(std::make_shared<Waiter>()),
        threads_(std::make_shared<FlowThreads>(options.threads, waiter_)) {
    const std::string interface = plait::detail::interface_of(own_);
    const std::string address = to_text(own_);
    properties_.name = fmt::format("sockets over {} ({})", interface.empty() ? "?" : interface,
                                   address.substr(0, address.rfind(':')));
    properties_.bandwidth = speed_of(interface) / 8;
  }

  const Properties& properties() const override { return properties_; }
  std::unique_ptr<Listener> listen() override {
    return std::make_unique<SocketListener>(
        std::make_unique<FlowDoor>(own_, options_.secret, waiter_), doors_, threads_);
  }
  std::unique_ptr<SendFlow> connect(const Address& address, Ways ways) override {
    for (FlowDoor* door : *doors_) door->advance();
    const Place place = place_of(address);
    const std::pair key(place.listener, ways);
    // Short messages are not cut, so one connection is all that they use.
    const auto connections = static_cast<std::size_t>(ways == Ways::one ? options_.connections : 1);
    try {
      auto call = calls_.find(key);
      if (call == calls_.end())
        call = calls_
                   .try_emplace(key, place.endpoint, place.listener, options_.secret, connections,
                                waiter_)
                   .first;
      auto sockets = call->second.advance();
      if (!sockets) return nullptr;
      calls_.erase(call);
      return std::make_unique<SocketSendFlow>(std::make_shared<FlowSockets>(std::move(*sockets)),
                                              threads_);
    } catch (const Error&) {
      calls_.erase(key);
      throw;
    }
  }
  std::string unanswered(const Address& address) const override {
    if (calls_.empty()) return {};
    for (const Ways ways : {Ways::both, Ways::one})
      if (const auto call = calls_.find({place_of(address).listener, ways}); call != calls_.end())
        if (std::string why = call->second.unanswered(); !why.empty()) return why;
    return {};
  }
  void give_up(const Address& address, Ways ways) override {
    calls_.erase({place_of(address).listener, ways});
  }
  void wait(std::chrono::microseconds timeout) override { waiter_->sleep(timeout); }
  void wake() noexcept override { waiter_->ring(); }

 private:
  SocketOptions options_;
  Endpoint own_;
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<FlowThreads> threads_;
  Properties properties_;
  std::shared_ptr<Doors> doors_ = std::make_shared<Doors>();
  std::map<std::pair<std::uint64_t, Ways>, FlowCall> calls_;  // by the number of the listener
};

}  // namespace

std::unique_ptr<Transport> make_socket_transport(const SocketOptions& options) {
  if (options.threads < 0 || options.threads > SocketOptions::most_threads)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("sockets: {} threads, but they may be 0 to {}", options.threads,
                            SocketOptions::most_threads));
  if (options.connections < 1 || options.connections > SocketOptions::most_connections)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("sockets: {} connections per flow, but it may be 1 to {}",
                            options.connections, SocketOptions::most_connections));
  return std::make_unique<SocketTransport>(options);
}

}  // namespace plait::transport
