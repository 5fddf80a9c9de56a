// How a communicator makes the events that users get.
#pragma once
#include <memory>

#include "plait/event.hpp"

namespace plait {

class Backend;

Event make_event(std::shared_ptr<Backend> backend);
/// The event of Plait with this handle, else one that borrows the runtime's.
Event find_event(std::shared_ptr<Backend> backend, void* native);

}  // namespace plait
