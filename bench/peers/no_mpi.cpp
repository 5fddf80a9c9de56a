// In the place of mpi.cpp in a build without MPI.
#include <cstdio>
#include <cstdlib>

#include "bench/peers/mpi.hpp"
#include "plait/unique_id.hpp"

namespace plait::bench {

MpiSession::MpiSession(int& /*argc*/, char**& /*argv*/) {}
MpiSession::~MpiSession() = default;

int MpiSession::rank() const { return 0; }
std::unique_ptr<Bootstrap> MpiSession::make_world() const { return make_world_bootstrap(); }
void MpiSession::abort(int status) const {
  std::fflush(stdout);
  std::_Exit(status);
}

std::string mpi_version() { return "none"; }

std::unique_ptr<Contender> make_mpi_peer(Communicator& /*comm*/, const Arena& /*arena*/,
                                         bool /*on_stream*/, bool /*counted*/,
                                         std::string& why_not) {
  why_not = "plait-bench was built without MPI";
  return nullptr;
}

}  // namespace plait::bench
