// Code of the library that runs on threads of the host, explored as it ships. It is compiled with
// -fsanitize=thread, and linked with --wrap for what it calls of the system: the explorer takes the
// place of both. Atomic operations are what they say, but sequentially consistent ones only acquire
// and release. Mutexes, condition variables, threads and pauses are those of the explorer; memory
// that is given back is kept until the end, and nobody may touch it.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "backends/model/explorer.hpp"

namespace plait::test {

struct HostProgram {
  /// Makes what all threads use, anew for each execution, and returns their functions.
  std::function<std::vector<std::function<void()>>()> make;
  std::size_t threads_of_its_own = 0;  // at most so many, which the code starts itself
  bool time_passes = false;            // else all is done at the same moment
  /// Whether plain accesses of a place count; none: all but those of stacks. Where each thread has
  /// memory of its own, a loop that waits and stores only there has done nothing.
  std::function<bool(const void*)> watches = {};
};
/// All executions, at most `most`; or `sample` of them.
model::Result explore(const HostProgram& program, std::size_t most, bool sample = false);

/// Within a thread: ends the execution as wrong.
void expect(bool right, const char* what);
/// Within a thread: waits for the end of the thread whose function has this number.
void await_end_of(int thread);

}  // namespace plait::test
