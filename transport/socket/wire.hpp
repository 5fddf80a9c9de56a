// The messages between two socket transports. Both ends are of one version and one byte order.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// The content of an Address.
struct Place {
  std::uint64_t magic = 0;
  std::uint64_t listener = 0;  // its number, because another one may get its port later
  plait::detail::Endpoint endpoint{};
};
inline constexpr std::uint64_t place_magic = 0x3165636c61706c70;
static_assert(sizeof(Place) <= sizeof(Address::bytes));

/// The first words on every connection, from the rank that calls. The called rank says nothing
/// until it has seen the proof, so a stranger learns nothing from it.
struct FlowHello {
  std::uint64_t magic = 0;
  plait::detail::Secret::Half proof{};
  std::uint64_t listener = 0;           // the number in the listener's address
  std::array<std::uint64_t, 2> flow{};  // random, so no two flows have the same
  std::uint32_t index = 0, number = 0;  // this connection, and how many its flow has
};
inline constexpr std::uint64_t flow_hello_magic = 0x31776f6c66616c70;

/// The called rank's answer, once per connection. The stripes of its replies follow, if it has any.
struct FlowAnswer {
  std::uint64_t magic = 0;
  plait::detail::Secret::Half proof{};
};
inline constexpr std::uint64_t flow_answer_magic = 0x31726577736e6170;

/// In front of every stripe.
struct StripeHead {
  std::uint64_t message = 0;  // messages are counted from 0 in each flow
  std::uint64_t bytes = 0;    // of the whole message
};

/// How a message is cut. A small one goes whole over the first connection. A large one goes in
/// contiguous stripes of equal size, the last of them shorter, over the first few or all
/// connections.
class Stripes {
 public:
  /// A large message is worth a second system call, because copying this much takes longer.
  static constexpr std::size_t small = 32 << 10;

  Stripes(std::size_t bytes, std::size_t connections) : bytes_(bytes), each_(bytes) {
    if (bytes <= small || connections == 1) return;
    constexpr std::size_t page = 4096;
    each_ = ((bytes - 1) / connections / page + 1) * page;
  }
  std::size_t count() const { return bytes_ == 0 ? 1 : (bytes_ - 1) / each_ + 1; }
  std::size_t offset(std::size_t stripe) const { return stripe * each_; }
  std::size_t size(std::size_t stripe) const { return std::min(each_, bytes_ - offset(stripe)); }

 private:
  std::size_t bytes_, each_;
};

}  // namespace plait::transport
