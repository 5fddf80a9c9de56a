// Rounds of messages in plain calls and in graphs, and what they must come to.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>

#include "communicator/order/pipeline.hpp"
#include "support/ranks.hpp"

namespace plait::test {

inline constexpr int many = under_tsan ? 60 : 1000;

/// Words of a message that takes a GPU's large launches.
inline std::size_t large() { return target() == BackendKind::host ? 30'000 : std::size_t{4} << 20; }

inline void expect_outcome(Pipeline& pipeline, StreamRef stream, int rounds) {
  const Outcome outcome = pipeline.outcome(stream);
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(outcome.rounds, static_cast<std::uint32_t>(rounds));
}

inline void expect_right(Communicator& comm, Pipeline& pipeline, StreamRef stream, int rounds) {
  comm.synchronize(stream);  // throws if the communicator is broken
  expect_outcome(pipeline, stream, rounds);
}

inline void launch(Communicator& comm, Graph& graph, StreamRef stream) {
  const DeviceScope device(backend_of(comm));
  graph.launch(stream.native());
}

}  // namespace plait::test
