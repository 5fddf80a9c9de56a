// The pieces that a thread block works on in one step of an all-reduce along rails
// (algorithms/blocks/channels/rail_stages.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstdint>

namespace plait {

struct RailPiece {
  bool exists;
  std::uint32_t number;  // in its channels on the node
  std::uint32_t place;   // in the stripe
};

/// By stage: pushed to the rail's rank on the node, added up there, known there, taken from it.
struct RailStep {
  RailPiece scattered, added, finished, gathered;
};

}  // namespace plait
