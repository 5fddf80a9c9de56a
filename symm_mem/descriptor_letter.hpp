// The messages of an exchange of descriptors: where a rank listens, and the letter that travels
// beside a descriptor.
#pragma once
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

/// No letter: the connection is of no use.
struct ReceivedLetter {
  std::optional<DescriptorLetter> letter;
  UniqueFd descriptor;
};
/// None if there is nothing to receive yet. The numbers: as for `parse_letter`.
std::optional<ReceivedLetter> receive_letter(const UniqueFd& connection, std::uint64_t nonce,
                                             int receiver, int size);

/// True if a call that has failed so may be made again later.
bool passes(int error);

}  // namespace plait
