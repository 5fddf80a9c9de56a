// What travels beside a descriptor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plait {

struct DescriptorLetter {
  std::uint64_t nonce;       // the receiver's, which only the ranks of its group know
  std::int32_t sender;       // its rank
  std::int32_t descriptors;  // 1, or 0 if the sender can't send it
};

/// The letter that `message` holds, if it is one to rank `receiver`, of `size`, whose nonce is this one. Takes any bytes.
std::optional<DescriptorLetter> parse_letter(std::span<const std::byte> message, std::uint64_t nonce, int receiver, int size);

}  // namespace plait
