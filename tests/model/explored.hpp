// For tests that explore threads of the host: programs of functions that share something.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "model/host_threads.hpp"

namespace plait::test {

using Functions = std::vector<std::function<void()>>;

/// All executions, unless only a sample of so many is wanted.
inline void explore_all(const char* what, const HostProgram& program, std::size_t sample = 0) {
  const auto begin = std::chrono::steady_clock::now();
  const model::Result result = explore(program, sample != 0 ? sample : 20'000, sample != 0);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.failure.substr(0, 20'000), "") << what;
  EXPECT_NE(result.complete, sample != 0) << what;
  EXPECT_GT(result.executions, 1u) << what;
  fmt::print(
      R"({{"what": "{}{}", "scenarios": 1, "executions": {}, "steps": {}, "seconds": {:.1f}}},)"
      "\n",
      what, sample != 0 ? " (a sample)" : "", result.executions, result.steps, seconds.count());
}

/// The functions get what they share, which the last one deletes when the others have ended.
template <class Shared>
HostProgram together(std::vector<void (*)(Shared&)> functions, std::size_t threads_of_its_own,
                     bool time_passes = false) {
  return {[functions] {
            auto* const shared = new Shared;
            Functions all;
            for (const auto function : functions)
              all.emplace_back([=, last = function == functions.back(),
                                others = static_cast<int>(functions.size()) - 1] {
                function(*shared);
                if (!last) return;
                for (int thread = 0; thread < others; ++thread) await_end_of(thread);
                delete shared;
              });
            return all;
          },
          threads_of_its_own, time_passes};
}

}  // namespace plait::test
