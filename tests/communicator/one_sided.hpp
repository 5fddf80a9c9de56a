// Shared by the tests of one-sided calls: ranks on one node or several, and a rank's memory.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "support/data.hpp"
#include "support/pretend_nodes.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// `body(comm, rank)` on fresh communicators.
inline void run_on(const Sizes& sizes, const CommunicatorOptions& options,
                   const std::function<void(Communicator&, int)>& body) {
  if (sizes.size() == 1) return run_ranks(sizes.front(), body, options);
  run_on_nodes(nodes_of(sizes), options, 64,
               [&](Communicator& comm, Arena&) { body(comm, comm.rank()); });
}

class OneSided : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  static int ranks() { return static_cast<int>(nodes_of(GetParam()).size()); }
  static void run(const std::function<void(Communicator&, int)>& body,
                  const CommunicatorOptions& options = test_options()) {
    run_on(GetParam(), options, body);
  }
};

/// A rank's window, with `room` bytes for every peer, and memory to send from.
class Peer {
 public:
  explicit Peer(Communicator& comm, std::size_t room = 400000)
      : comm_(comm),
        room_(room),
        window_(comm.allocate<std::byte>(room * static_cast<std::size_t>(comm.size()))),
        own_(static_cast<std::byte*>(backend_of(comm).allocate(2 * room))) {}
  ~Peer() { backend_of(comm_).deallocate(own_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::shared_ptr<Window>& window() const { return window_.window(); }
  std::byte* at(int rank) const { return window_.data() + offset(rank); }
  std::byte* own() const { return own_; }
  std::size_t offset(int rank) const { return room_ * static_cast<std::size_t>(rank); }

  static std::vector<std::byte> content(std::uint64_t seed, int rank, std::size_t bytes) {
    std::vector<std::byte> all(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      all[i] = static_cast<std::byte>(hash(seed, static_cast<std::uint64_t>(rank), i));
    return all;
  }
  void fill(std::byte* to, std::uint64_t seed, int rank, std::size_t bytes, StreamRef stream = {}) {
    image_ = content(seed, rank, bytes);
    comm_.copy(to, image_.data(), bytes, stream);
    comm_.synchronize(stream);
  }
  testing::AssertionResult holds(const std::byte* from, std::uint64_t seed, int rank,
                                 std::size_t bytes, StreamRef stream = {}) {
    image_.assign(bytes, std::byte{});
    // A copy behind a wait for another node would keep the driver from this process's proxies
    // (docs/algorithms/one_sided.md).
    comm_.synchronize(stream);
    comm_.copy(image_.data(), from, bytes, stream);
    comm_.synchronize(stream);
    if (image_ == content(seed, rank, bytes)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << bytes << " bytes of rank " << rank << ", seed " << seed;
  }

 private:
  Communicator& comm_;
  std::size_t room_;
  Buffer<std::byte> window_;
  std::byte* own_;
  std::vector<std::byte> image_ = {};
};

}  // namespace plait::test
