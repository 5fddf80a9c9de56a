// The one exception type of the library.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plait/language.hpp"

namespace plait {

/// What kind of error it is. docs/troubleshooting.md says what to do.
enum class ErrorCode : std::uint8_t {
  /// The call itself is wrong. Nothing was enqueued. The call still has a number: other ranks that
  /// make it get `mismatch`, and the communicator is broken. If all ranks refuse it, they go on.
  invalid_argument,
  /// A valid call that this build, device or algorithm can't serve. The rest is as above.
  unsupported,
  /// Ranks disagree, or one has refused a call that others have made. Thrown on all ranks that
  /// still have the communicator when this is found.
  mismatch,
  /// Two devices can't reach each other's memory. Thrown on all ranks.
  no_peer_access,
  /// Thrown on all ranks of a collective call, even if only one rank ran out.
  out_of_memory,
  /// A peer did not arrive within the deadline. The communicator is broken on all ranks.
  timeout,
  /// A rank has aborted the communicator.
  aborted,
  /// A rank's process has ended, or has destroyed the communicator too early. The communicator is
  /// broken.
  rank_lost,
  /// A CUDA, HIP or system call failed.
  backend,
  /// MPI or the exchange between processes failed.
  bootstrap,
};

/// The code's name, as in messages: "invalid_argument".
std::string_view name_of(ErrorCode code);

/// A code to branch on, and one sentence that names the rank, the call and the values.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace plait
