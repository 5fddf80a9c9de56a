// Errors of what ranks do together: one on some rank becomes the same on all, and those of the
// exchange itself say what it was for.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {

/// Runs `exchange`, which asks the other ranks something, for the purpose `what`: a call that the
/// user has made or knows. If it fails, the error names that; of which calls of the bootstrap it is
/// made does not matter to anybody.
template <class Exchange>
auto on_behalf_of(Bootstrap& bootstrap, const char* what, Exchange exchange) {
  const BootstrapHooks::Purpose purpose(bootstrap, what);
  try {
    return exchange();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bootstrap && error.code() != ErrorCode::mismatch)
      throw;  // of what interrupts it
    throw Error(error.code(), fmt::format("{}: {}", what, error.what()));
  }
}

/// Runs `step` on every rank; collective. If it throws on some, all ranks throw the error of the
/// lowest of those, which the message names.
template <class Step>
void agree(Bootstrap& bootstrap, const char* what, Step step) {
  struct Outcome {
    bool failed;
    ErrorCode code;
    char message[512];
  } mine{};
  try {
    step();
  } catch (const Error& error) {
    mine = {.failed = true, .code = error.code(), .message = {}};
    std::strncpy(mine.message, error.what(), sizeof(mine.message) - 1);
  } catch (const std::exception& error) {
    mine = {.failed = true, .code = ErrorCode::backend, .message = {}};
    std::strncpy(mine.message, error.what(), sizeof(mine.message) - 1);
  }
  const auto all = on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(mine); });
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Outcome& outcome) { return outcome.failed; });
  if (first != all.end())
    throw Error(first->code,
                fmt::format("{}: rank {}: {}", what, first - all.begin(), first->message));
}

}  // namespace plait
