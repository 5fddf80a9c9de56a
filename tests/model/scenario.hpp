// Calls of the ranks of a communicator, recorded as a program for the explorer.
#pragma once
#include <barrier>
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
  std::uint32_t age = 0;  // of counters and signals before the first call; of those in `aged`
  std::optional<model::Stop> stop{};

  std::string describe() const;
};

using UseProgram = std::function<void(const Scenario&, model::Explorer&, const model::Program&)>;

/// Calls `use` with the program of each scenario whose calls are not refused: what all ranks have
/// recorded, and between the calls a program that looks at each element of the results, and stores
/// the next input. The scenarios have the same number of ranks and the same shape, and share
/// communicators, because to create these takes most of the time.
void with_programs(const std::vector<Scenario>& scenarios, const UseProgram& use);

/// For others: keeps what `record` of all ranks launches, and what they add to the recording; then
/// rank 0 calls `use`. Collective; `all` is for all ranks. If a rank's `record` throws an Error, so
/// does that of all, and nothing is used.
void record_and_use(Communicator& comm, std::barrier<>& all, const std::function<void()>& record,
                    const std::function<void(model::Explorer&, model::Program&)>& use);

/// Algorithms within a node that are kernels: no copies by copy engines.
bool is_explored(const Subject& subject);
std::vector<Subject> explored_algorithms();
/// In place in symmetric memory, buffers of a rooted collective have different offsets.
bool fits(const Subject& subject, Where where);

}  // namespace plait::test
