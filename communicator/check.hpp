// Bad arguments are found here, before anything is enqueued.
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

/// The call as all ranks describe it: what its collective does not have does not count, nor what is
/// found out. Throws Error(invalid_argument) if there is no such collective.
Call described(const Call& call, const CallOptions& options, int rank, int ranks);

/// Throws Error(invalid_argument) or Error(unsupported) that names the rank, the call and the
/// values: of what all ranks know of it.
void check_facts(const Call& call, const CallOptions& options, int rank, int ranks);
/// The same, and of this rank's buffers.
void check_call(const Call& call, const CallOptions& options, const Buffers& buffers, int rank,
                int ranks);
/// `what`: the call, as the user wrote it.
void check_options(std::string_view what, const CallOptions& options, int rank);

/// The same for one end of a message. `what`: the call, as the user wrote it.
void check_message(const Call& call, const MessageEnd& end, int rank, int ranks,
                   std::string_view what);

/// What is wrong with the lengths of typed buffers for blocks of `count` elements, if anything.
/// Where only `root` has a buffer, the others' may have any length.
std::optional<Error> check_extents(Collective collective, std::size_t send, std::size_t recv,
                                   std::size_t count, int rank, int ranks, int root);

/// PLAIT_CHECK=1: compares the call with those of all ranks. Collective; throws Error(mismatch)
/// with both sides on all ranks. `places` says where the buffers lie.
void check_agreement(Bootstrap& bootstrap, const Call& call, const CallOptions& options,
                     const std::string& places);

}  // namespace plait
