// Memory files as descriptors to exchange.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "symm_mem/descriptor_exchange.hpp"

namespace plait {

/// A memory file that says whose it is.
inline UniqueFd make_memfd(int content) {
  UniqueFd fd(::memfd_create("plait-test", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), &content, sizeof content), static_cast<ssize_t>(sizeof content));
  return fd;
}

inline int content_of(const UniqueFd& fd) {
  int content = -1;
  EXPECT_EQ(::pread(fd.get(), &content, sizeof content, 0), static_cast<ssize_t>(sizeof content));
  return content;
}

/// Sends 16 bytes with these descriptors, to `name` where the socket is not connected. Does not
/// wait, and says nothing if the system refuses.
inline void send_descriptors(int socket, const void* bytes, std::span<const int> descriptors,
                             const sockaddr* name = nullptr, socklen_t length = 0) {
  iovec data{const_cast<void*>(bytes), 16};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(name);
  message.msg_namelen = length;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_LEN(descriptors.size_bytes());
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = message.msg_controllen;
  std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  (void)::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// Every rank gets the files of all others; their contents are `salt` and the rank.
inline void exchange_and_check(Bootstrap& bootstrap, int salt) {
  const std::vector<UniqueFd> fds =
      exchange_descriptors(bootstrap, make_memfd(salt + bootstrap.rank()));
  ASSERT_EQ(static_cast<int>(fds.size()), bootstrap.size());
  for (int peer = 0; peer < bootstrap.size(); ++peer) {
    const UniqueFd& fd = fds[static_cast<std::size_t>(peer)];
    ASSERT_EQ(fd.valid(), peer != bootstrap.rank());
    if (!fd.valid()) continue;
    EXPECT_EQ(content_of(fd), salt + peer);
    EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

inline int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace plait
