// Machines that documentation and fits ask the algorithms about, whatever this one is.
#pragma once
#include "algorithms/contract/algorithm.hpp"

namespace plait::info {

/// H200 behind an NVSwitch, with what backends/cuda/cuda_backend.cpp says about one.
Topology gpus(int ranks);

/// CPU ranks that may read each other's memory. Only the rules for them are asked for, so there are
/// no figures for estimates.
Topology cpus(int ranks);

}  // namespace plait::info
