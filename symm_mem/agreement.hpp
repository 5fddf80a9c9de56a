// Turns an error on one rank into the same error on all.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {

/// Runs `step` on every rank; collective. If it throws on some, all ranks throw the error of the lowest of those, which the message names.
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
  const auto all = bootstrap.all_gather(mine);
  const auto first = std::find_if(all.begin(), all.end(), [](const Outcome& outcome) { return outcome.failed; });
  if (first != all.end()) throw Error(first->code, fmt::format("{}: rank {}: {}", what, first - all.begin(), first->message));
}

}  // namespace plait
