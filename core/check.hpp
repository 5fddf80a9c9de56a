// Bad arguments are found here, before anything is enqueued.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/algorithm.hpp"
#include "core/group.hpp"
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"

namespace plait {

/// Throws Error(invalid_argument) or Error(unsupported) that names the rank, the call and the values.
void check_call(const Call& call, const Buffers& buffers, int rank, int ranks);

/// The same for one end of a message. `what`: the call, as the user wrote it.
void check_message(const Call& call, const MessageEnd& end, int rank, int ranks, std::string_view what);

/// What is wrong with the lengths of typed buffers for blocks of `count` elements, if anything. Who may lack a buffer need not have one:
/// every rank but `root`, and that too if it is not known here.
std::optional<Error> check_extents(Collective collective, std::size_t send, std::size_t recv, std::size_t count, int rank, int ranks,
                                   std::optional<int> root = std::nullopt);

/// PLAIT_CHECK=1: compares the call with those of all ranks. Collective; throws Error(mismatch) with both sides on all ranks.
/// `places` says where the buffers lie.
void check_agreement(Bootstrap& bootstrap, const Call& call, const CallOptions& options, const std::string& places);

}  // namespace plait
