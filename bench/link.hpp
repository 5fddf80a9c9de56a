// How fast the link between two ranks is: what bandwidths are compared with.
#pragma once
#include <string>

#include "backends/backend.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

struct Link {
  double gb_per_s = 0;  // one way, 1e9 bytes a second; 0: there is no link, one rank
  std::string how;      // how it was measured, for the reader
};

/// Measures large copies between neighbours, one way: by the copy engine on a GPU, by the processor
/// on the host. Collective.
Link measure_link(Communicator& comm, NativeStream stream);

}  // namespace plait::bench
