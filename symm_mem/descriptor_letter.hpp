// The messages of an exchange of descriptors: where a rank listens, and the letter that travels
// beside a descriptor.
#pragma once
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/unique_fd.hpp"

namespace plait {

/// A rank's socket, as it describes it to the others. Gathered over the bootstrap, which is
/// trusted.
struct ExchangeAddress {
  sockaddr_un name;
  std::uint32_t length;
  std::int32_t process;
  std::uint64_t process_space;
  std::uint64_t nonce;
  std::array<char, 256> failure;  // empty, or why there is no socket
};

struct DescriptorLetter {
  std::uint64_t nonce;       // the receiver's, which only the ranks of its group know
  std::int32_t sender;       // its rank
  std::int32_t descriptors;  // 1, or 0 if the sender can't send it
};

/// The letter in `message`, if it is one to rank `receiver` of `size` ranks, whose nonce is
/// `nonce`. Takes any bytes.
std::optional<DescriptorLetter> parse_letter(std::span<const std::byte> message,
                                             std::uint64_t nonce, int receiver, int size);

/// Sends a letter, with a duplicate of `descriptor` if the letter says so. False: see errno.
bool send_letter(const UniqueFd& connection, const DescriptorLetter& letter,
                 const UniqueFd& descriptor);

/// Receives a message as recvmsg does. Sets `descriptor` to the one that came with it, or to none.
ssize_t receive_message(const UniqueFd& connection, std::span<std::byte> bytes,
                        UniqueFd& descriptor);

}  // namespace plait
