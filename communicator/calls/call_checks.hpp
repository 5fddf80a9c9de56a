// Checks the arguments of calls before anything is enqueued.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"

namespace plait {

/// The call as all ranks describe it. Members that the collective does not use get their defaults,
/// and so do `symmetric` and `in_place`, which are found out later. Throws Error(invalid_argument)
/// if there is no such collective.
Call described(const Call& call, const CallOptions& options, int rank, int ranks);

/// Checks what all ranks know of a call. Throws Error(invalid_argument) or Error(unsupported),
/// which names the rank, the call and the values.
void check_facts(const Call& call, const CallOptions& options, int rank, int ranks);
/// Checks the same, and this rank's buffers.
void check_call(const Call& call, const CallOptions& options, const Buffers& buffers, int rank,
                int ranks);
/// Checks the options. `what`: the call, as the user wrote it.
void check_options(std::string_view what, const CallOptions& options, int rank);

/// Checks one end of a message. `what`: the call, as the user wrote it.
void check_message(const Call& call, const MessageEnd& end, int rank, int ranks,
                   std::string_view what);

/// The error if the lengths of typed buffers do not fit blocks of `count` elements. If only `root`
/// has a buffer, that of another rank may have any length.
std::optional<Error> check_extents(Collective collective, std::size_t send, std::size_t recv,
                                   std::size_t count, int rank, int ranks, int root);

/// PLAIT_CHECK=1: compares the call with those of all ranks. Collective. Throws Error(mismatch)
/// with both sides on all ranks. `places`: where the buffers lie.
void check_agreement(Bootstrap& bootstrap, const Call& call, const CallOptions& options,
                     const std::string& places);
/// The same for a call that is compared as `text`.
void check_agreement(Bootstrap& bootstrap, const std::string& text,
                     ArrayOrder order = ArrayOrder::unsaid);

}  // namespace plait
