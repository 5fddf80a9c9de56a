// Shared by the tests with a deadline: a short one, and ranks that let it pass.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {

inline constexpr std::chrono::milliseconds deadline{500};
inline constexpr std::chrono::seconds soon{under_tsan ? 30 : 10};

inline CommunicatorOptions impatient() { return test_options({.timeout = deadline}); }

/// Makes no call until the others' time is over.
inline void stay(const Communicator& comm) { static_cast<void>(heard(comm, patience)); }

/// body(i) for each of so many cases. On the host several run at once, because their ranks sleep
/// most of the time; not so many that a rank which calls in time misses a deadline.
inline void at_once(std::size_t cases, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  const int threads = target() != BackendKind::host ? 1 : under_tsan ? 2 : 6;
  on_threads(threads, [&](int) {
    for (std::size_t i; (i = next++) < cases;) body(i);
  });
}

}  // namespace plait::test
