// Groups over sockets, for the ways in which their ranks learn of each other.
#pragma once
#include <chrono>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "bootstrap/link_bootstrap.hpp"
#include "bootstrap/socket/meeting.hpp"
#include "plait/bootstrap.hpp"

namespace plait::detail {

/// `wanted`: as for `limit_of_meeting`, whose failure becomes the arrival's. Throws
/// Error(invalid_argument) if this process can't have a connection for each rank.
Arrival arrive(const char* call, int rank, int size,
               std::optional<std::chrono::nanoseconds> wanted);

/// The group of all ranks that have met.
std::unique_ptr<LinkBootstrap> group_of(SocketMeeting meeting, const Arrival& mine);

}  // namespace plait::detail
