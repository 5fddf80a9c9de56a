// The numbers of calls. Collectives have the same numbers on all ranks. Messages (send, recv) are
// numbered apart, because each rank has its own.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "backends/device/launch_types.hpp"

namespace plait {

/// Set in the number of a message.
inline constexpr std::uint64_t message_bit = std::uint64_t{1} << (span_call_bits - 1);

constexpr bool is_message(std::uint64_t number) { return (number & message_bit) != 0; }
constexpr std::uint64_t plain_number(std::uint64_t number) { return number & (message_bit - 1); }

/// "call 17", "message 3".
inline std::string describe_number(std::uint64_t number) {
  return fmt::format("{} {}", is_message(number) ? "message" : "call", plain_number(number));
}

}  // namespace plait
