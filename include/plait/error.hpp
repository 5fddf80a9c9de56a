// The one exception type of the library.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plait/language.hpp"

namespace plait {

/// What kind of thing went wrong. docs/troubleshooting.md says what to do.
enum class ErrorCode : std::uint8_t {
  invalid_argument,  ///< the call itself is wrong; nothing was enqueued
  unsupported,       ///< a valid call that this build, device or algorithm can't serve; nothing was
                     ///< enqueued
  mismatch,  ///< ranks disagree; thrown on all that have not destroyed the communicator before it
             ///< is found
  no_peer_access,  ///< two devices can't reach each other's memory; thrown on all ranks
  out_of_memory,   ///< thrown on all ranks of a collective call, also where only one rank ran out
  timeout,  ///< a peer did not arrive within the deadline; the communicator is broken, on all ranks
  aborted,  ///< a rank has aborted the communicator
  rank_lost,  ///< a rank's process has ended, or it has destroyed the communicator too early; the
              ///< communicator is broken
  backend,    ///< a CUDA, HIP or system call failed
  bootstrap,  ///< MPI or the exchange between processes failed
};

/// The code's name, as messages have it.
std::string_view name_of(ErrorCode code);

/// A code to branch on and one sentence that names the rank, the call and the values.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace plait
