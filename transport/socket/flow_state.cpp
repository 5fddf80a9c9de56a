#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "plait/error.hpp"
#include "transport/socket/flow_ends.hpp"

namespace plait::transport {

FlowState::FlowState(const FlowSockets& sockets)
    : peer_(plait::detail::peer_name(sockets.front().get())) {}

void FlowState::require_whole() const {
  if (error_) throw Error(*error_);
}

void FlowState::lose(int error) {
  // Other errors are mistakes of this process or of its system.
  constexpr std::array lost{ECONNRESET, EPIPE,        ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
                            ENETDOWN,   ECONNABORTED, ENETRESET, EHOSTDOWN,    0};
  const bool is_lost = std::find(lost.begin(), lost.end(), error) != lost.end();
  const bool closed = error == 0 || error == EPIPE;
  break_off(is_lost ? ErrorCode::rank_lost : ErrorCode::bootstrap,
            closed ? "the other rank has closed it" : std::generic_category().message(error));
}

void FlowState::break_off(ErrorCode code, const std::string& why) {
  error_.emplace(code, fmt::format("connection to {}: {}", peer_, why));
  throw Error(*error_);
}

std::unique_ptr<Registration> register_for_sockets(MemoryKind kind) {
  if (kind != MemoryKind::host)
    throw Error(ErrorCode::unsupported, "sockets: messages must lie in host memory");
  return std::make_unique<Registration>();
}

}  // namespace plait::transport
