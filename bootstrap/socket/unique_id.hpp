// The contents of a unique id.
#pragma once
#include <optional>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "core/unique_fd.hpp"
#include "plait/unique_id.hpp"

namespace plait::detail {

struct IdContents {
  Endpoint root;
  Secret secret;
};
UniqueId to_id(const IdContents& contents);
/// Throws Error(invalid_argument) if these are not the bytes of an id of this version.
IdContents contents_of(const UniqueId& id);

/// An id whose rank 0 listens at `endpoint`, in this process. Port 0: any.
UniqueId create_id_at(const Endpoint& endpoint);
/// The listener of an id that this process, or the one that it was forked from, has created. None
/// if there is no such listener, or it was taken before, also by another of these processes.
std::optional<UniqueFd> take_listener(const IdContents& contents);
/// Closes the listener of an id that no rank will use.
void discard(const UniqueId& id);

}  // namespace plait::detail
