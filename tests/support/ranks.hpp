// Ranks as threads of the test: a communicator and its memory for each.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backends/backend.hpp"
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

/// `body(bootstrap, rank)` on a thread each.
void with_bootstraps(int ranks, const std::function<void(std::unique_ptr<Bootstrap>, int)>& body);

/// `body(comm, rank)` on fresh communicators without an arena.
void run_ranks(int ranks, const std::function<void(Communicator&, int)>& body,
               const CommunicatorOptions& options = {});
inline void run_ranks(int ranks, const CommunicatorOptions& options,
                      const std::function<void(Communicator&, int)>& body) {
  run_ranks(ranks, body, options);
}

/// Options with the target and the deadline of the tests filled in.
CommunicatorOptions test_options(CommunicatorOptions options = {});

/// The graph of what `work` enqueues on the stream.
std::unique_ptr<Graph> captured(Communicator& comm, StreamRef stream,
                                const std::function<void()>& work);

/// Tests with several numbers of ranks.
class ForRanks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  static int ranks() { return GetParam(); }
  /// With the communicators of the test before, if they are as many.
  static void run(const RankGroup::Body& body) { RankGroup::cached(ranks()).run(body); }
};

/// Names a test's parameters: n3, or NAME_n3 for a tuple of both. Filters look for the ranks last.
struct TestName {
  template <class T>
  std::string operator()(const testing::TestParamInfo<T>& test) const {
    return of(test.param);
  }
  static std::string of(int ranks) { return "n" + std::to_string(ranks); }
  static std::string of(const std::string& name) { return name; }
  template <class T>
  static std::string of(const T& named) {
    return test_name(named);
  }
  template <class T>
  static std::string of(const std::tuple<T, int>& both) {
    return of(std::get<0>(both)) + "_" + of(std::get<1>(both));
  }
  template <class T>
  static std::string of(const std::tuple<int, T>& both) {
    return of(std::get<1>(both)) + "_" + of(std::get<0>(both));
  }
};
/// Makes the fixture NAME a ForRanks, for each number of ranks that the generator gives.
#define PLAIT_FOR_RANKS(NAME, ...) \
  using NAME = ForRanks;           \
  INSTANTIATE_TEST_SUITE_P(All, NAME, __VA_ARGS__, TestName())

}  // namespace plait::test
