#include "symm_mem/descriptor_letter.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "core/standard_fds.hpp"

namespace plait {
namespace {

/// Space for the control data of a message with one descriptor.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

/// The one descriptor in a received message, if there is one. It is open from then on, whatever the
/// message says.
UniqueFd descriptor_in(msghdr& message) {
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
      part->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return StandardFdsTaken::own(fd);
}

/// As recvmsg does. Sets `descriptor` to the one that came with the message, or to none.
ssize_t receive_message(const UniqueFd& connection, std::span<std::byte> bytes,
                        UniqueFd& descriptor) {
  iovec data{bytes.data(), bytes.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  // Without the padding, where a second descriptor would have room.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const StandardFdsTaken taken;
  const ssize_t length = ::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
  if (length >= 0) descriptor = descriptor_in(message);
  return length;
}

}  // namespace

bool passes(int error) {
  return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM ||
         error == ETOOMANYREFS;
}

std::optional<DescriptorLetter> parse_letter(std::span<const std::byte> message,
                                             std::uint64_t nonce, int receiver, int size) {
  DescriptorLetter letter{};
  if (message.size() != sizeof letter) return std::nullopt;
  std::memcpy(&letter, message.data(), sizeof letter);
  const bool is_peer = letter.sender >= 0 && letter.sender < size && letter.sender != receiver;
  if (letter.nonce != nonce || !is_peer || letter.descriptors < 0 || letter.descriptors > 1)
    return std::nullopt;
  return letter;
}

bool send_letter(const UniqueFd& connection, const DescriptorLetter& letter,
                 const UniqueFd& descriptor) {
  DescriptorLetter copy = letter;
  iovec data{&copy, sizeof copy};
  Control control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (letter.descriptors > 0) {
    const int value = descriptor.get();
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof value);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(part), &value, sizeof value);
  }
  return ::sendmsg(connection.get(), &message, MSG_NOSIGNAL) >= 0;
}

std::optional<ReceivedLetter> receive_letter(const UniqueFd& connection, std::uint64_t nonce,
                                             int receiver, int size) {
  ReceivedLetter received;
  std::array<std::byte, sizeof(DescriptorLetter) + 1> bytes{};
  ssize_t length = receive_message(connection, bytes, received.descriptor);
  // Linux looks at the queue first, and then whether the peer has closed. If the peer sends its
  // letter and closes in between, that reads as an end, although the letter is there. Nothing comes
  // after the end, so the second look finds all there is. An empty message reads as an end, too,
  // and may have had a descriptor, which is closed.
  if (length == 0) length = receive_message(connection, bytes, received.descriptor);
  if (length < 0 && passes(errno)) return std::nullopt;
  if (length > 0)
    received.letter =
        parse_letter({bytes.data(), static_cast<std::size_t>(length)}, nonce, receiver, size);
  return received;
}

}  // namespace plait
