// Argmax over ranks.
#pragma once
#include <plait/plait.hpp>
#include <span>

#include "argmax/candidate.hpp"

/// Every rank receives, at each position, the best candidate of all ranks. Otherwise as
/// `Communicator::all_reduce`.
void argmax(plait::Communicator& comm, std::span<const Candidate> send, std::span<Candidate> recv,
            plait::StreamRef stream = {});
