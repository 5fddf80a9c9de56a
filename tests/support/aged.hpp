// Twins of algorithms whose memory has seen four billion calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/plait.hpp"
#include "support/zoo.hpp"

namespace plait::test {

/// One algorithm of each kind: of several collectives that share their memory one. Registers a twin
/// of each, "aged_" before its name, with memory of its own. A communicator has twins if it is made
/// later.
std::vector<Subject> aged();
inline Subject twin_of(const Subject& original) {
  return {original.collective, "aged_" + original.algorithm};
}

/// Sets every counter and signal of the twin as if `age` steps had been made. Collective.
/// `scratch_bytes`: PLAIT_SCRATCH_BYTES.
void make_old(Communicator& comm, const Subject& twin, std::uint32_t age,
              std::size_t scratch_bytes);

}  // namespace plait::test
