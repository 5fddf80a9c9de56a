// Broadcast and reduce, for descriptors: in one hop, all of it goes out of, or into, the root n - 1 times.
#pragma once
#include <array>

#include "plait/types.hpp"

namespace plait {

inline constexpr std::array rooted_collectives = {Collective::broadcast, Collective::reduce};

}  // namespace plait
