// Ranks as threads of the test: a communicator and its memory for each.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "plait/plait.hpp"
#include "support/device_array.hpp"

namespace plait::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif

/// How long a wait may last before a test fails.
inline constexpr std::chrono::seconds patience{under_tsan ? 120 : 40};

/// The target of the tests: PLAIT_BACKEND, else a GPU target that has a device, else the host.
BackendKind target();
/// Empty, or why `ranks` ranks can't run here. The host takes any number; a GPU target one per
/// device.
std::string why_not(int ranks);
#define PLAIT_SKIP_UNLESS_RANKS_FIT(ranks)                                     \
  if (const std::string reason = plait::test::why_not(ranks); !reason.empty()) \
  GTEST_SKIP() << reason

/// Runs `body(rank)` on a thread each and waits for all. Rethrows what was thrown first. The others
/// must not wait for ever for the one that threw: every wait in Plait has a deadline.
void on_threads(int ranks, const std::function<void(int)>& body);

/// One communicator per rank, created and destroyed together; memory for tests with each.
class RankGroup {
 public:
  using Body = std::function<void(Communicator&, Arena&)>;

  explicit RankGroup(int ranks, const CommunicatorOptions& options = {});
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  void run(const Body& body);
  int ranks() const { return static_cast<int>(members_.size()); }
  bool broken() const { return broken_; }

  /// The group of the last call if it fits, else a new one: memory for one group at a time.
  static RankGroup& cached(int ranks);
  static void drop_cached();

 private:
  struct Member {
    std::unique_ptr<Communicator> comm;
    std::unique_ptr<Arena> arena;
  };
  void destroy() noexcept;

  std::vector<Member> members_;
  bool broken_ = false;
};

/// `body(comm, rank)` on fresh communicators without an arena.
void run_ranks(int ranks, const std::function<void(Communicator&, int)>& body,
               const CommunicatorOptions& options = {});

/// Options with the target and the deadline of the tests filled in.
CommunicatorOptions test_options(CommunicatorOptions options = {});

}  // namespace plait::test
