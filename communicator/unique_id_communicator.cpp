#include "plait/unique_id.hpp"

namespace plait {

Communicator make_communicator(const UniqueId& id, int rank, int size,
                               const CommunicatorOptions& options) {
  return Communicator::create(make_socket_bootstrap(id, rank, size, options.timeout), options);
}

Communicator make_world_communicator(const CommunicatorOptions& options) {
  return Communicator::create(make_world_bootstrap(options.timeout), options);
}

}  // namespace plait
