// How the owner of device memory learns that no process uses it any more; needs no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <span>
#include <string_view>
#include <utility>

#include "backends/hip/lease.hpp"
#include "plait/error.hpp"

namespace plait::hip {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
UniqueFd duplicate(const UniqueFd& fd) { return UniqueFd(::dup(fd.get())); }

TEST(Lease, EveryPeerReadsTheSameOffer) {
  Lease lease(bytes_of("where it is"));
  const UniqueFd first = lease.take(), second = duplicate(first);
  for (const UniqueFd* peer : {&first, &second, &first}) {
    char text[11] = {};
    Lease::read(*peer, std::as_writable_bytes(std::span(text)));
    EXPECT_EQ(std::string_view(text, sizeof text), "where it is");
  }
}

TEST(Lease, EndsWithTheLastPeer) {
  Lease lease(bytes_of("offer"));
  UniqueFd first = lease.take(), second = duplicate(first);
  EXPECT_FALSE(lease.ended());
  first = UniqueFd();
  EXPECT_FALSE(lease.ended());
  second = UniqueFd();
  EXPECT_TRUE(lease.ended());
}

TEST(Lease, EndsWhenAPeerIsKilled) {
  Lease lease(bytes_of("offer"));
  UniqueFd theirs = lease.take();
  const pid_t peer = ::fork();
  ASSERT_GE(peer, 0);
  if (peer == 0)
    for (;;) ::pause();
  theirs = UniqueFd();
  EXPECT_FALSE(lease.ended());
  ::kill(peer, SIGKILL);
  ::waitpid(peer, nullptr, 0);
  EXPECT_TRUE(lease.ended());
}

TEST(Lease, AnOfferOfAnotherSizeIsAnError) {
  Lease lease(bytes_of("short"));
  const UniqueFd theirs = lease.take();
  char text[40];
  EXPECT_THROW(Lease::read(theirs, std::as_writable_bytes(std::span(text))), Error);
}

}  // namespace
}  // namespace plait::hip
