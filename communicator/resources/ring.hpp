// The order of rings and chains, by the links between devices.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "plait/bootstrap.hpp"

namespace plait {

/// Row r: `Backend::links_to` of device r.
using LinkMatrix = std::vector<std::vector<int>>;

/// The ring of all devices whose narrowest pair of neighbours has the most links and, among such
/// rings, the one with the most links in all. 0, 1, 2, ... if no other ring is better, if links are
/// unknown, or for more than 16 devices: those are behind switches. Depends on the matrix alone.
std::vector<int> ring_order(const LinkMatrix& links);

/// The value of PLAIT_RING, such as "0,2,1,3". Throws Error(invalid_argument) if it is no order of
/// 0 to n - 1.
std::vector<int> parse_ring(std::string_view text);

/// The order for ranks of one node, by `ring_order`; empty: 0, 1, 2, ... Collective; equal on all
/// ranks. `ids`: each rank's device.
std::vector<int> find_ring(Bootstrap& bootstrap, const Backend& backend,
                           std::span<const std::string> ids);

}  // namespace plait
