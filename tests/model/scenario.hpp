// Calls of the ranks of a communicator, recorded as a program for the explorer.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/device/launch_types.hpp"
#include "backends/model/explorer.hpp"
#include "support/zoo.hpp"

namespace plait::test {

enum class Where { symmetric, in_place, ordinary };

struct Scenario {
  std::vector<Subject> subjects;  // taken in turn, call by call
  int ranks;
  LaunchShape shape;
  std::vector<std::size_t> counts;  // elements of a block, taken in turn
  Where where = Where::symmetric;
  int calls = 3;
  int grouped = 1;        // so many at once, in a group
  std::uint32_t age = 0;  // of counters and signals before the first call
  std::optional<model::Stop> stop{};

  std::string describe() const;
};

/// Least scratch memory for `ranks`, so that a few elements already take several rounds.
inline constexpr const char* little_scratch = "2M";

/// `body(program)` once all ranks have recorded the scenario's calls, and between them a program
/// that looks at each element of the results, and stores the next input. Returns why a call was
/// refused.
std::string with_program(const Scenario& scenario, model::Explorer& explorer,
                         const std::function<void(const model::Program&)>& body);

/// All algorithms within a node that are kernels: no copies by copy engines.
std::vector<Subject> explored_algorithms();
/// In place in symmetric memory, buffers of a rooted collective have different offsets.
bool fits(const Subject& subject, Where where);

}  // namespace plait::test
