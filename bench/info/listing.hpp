// What plait-info prints for people.
#pragma once
#include <string>
#include <vector>

#include "bench/info/catalog.hpp"

namespace plait::info {

/// Prints targets, devices, types and operations, and a row per name of an algorithm. Algorithms
/// that serve nothing here share a line per reason.
void print_listing(const std::vector<BackendFacts>& backends, const Topology& topology,
                   const std::vector<AlgorithmFacts>& algorithms);

/// Prints what the algorithms of that name serve here, and why not more. Throws
/// Error(invalid_argument) if there is none.
void print_why(const std::vector<AlgorithmFacts>& algorithms, const std::string& name);

}  // namespace plait::info
