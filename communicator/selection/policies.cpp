// Choices that have a name: those of other libraries, and the one for equal bits.
#include <array>

#include "communicator/selection/selection.hpp"

namespace plait {

std::span<const Policy> policies() {
  static constexpr std::array<Policy, 3> all = {{
      {"yali", "0-67108865=flash;0-=stream",
       "YALI: Flash up to and with 64 MiB, Stream above (and where memory is not symmetric)"},
      {"p2p", "0-32769=recursive_doubling;32769-=ring",
       "the peer-to-peer design: recursive doubling up to and with 32 KiB, ring above"},
      {reproducible_policy, "",
       "floats reduced in rank order: the bits of a result depend on its terms alone"},
  }};
  return all;
}

}  // namespace plait
