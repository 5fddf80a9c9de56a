// Errors of steps that ranks take together. An error on one rank becomes the same error on all, and
// an error of the exchange itself names its purpose.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/support.hpp"
#include "core/text.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {

/// Runs `exchange`, which communicates with the other ranks, for the purpose `what`: a call that
/// the user has made or knows. If it fails, the error names `what`, because the calls of the
/// bootstrap that it is made of mean nothing to users.
template <class Exchange>
auto on_behalf_of(Bootstrap& bootstrap, const char* what, Exchange exchange) {
  const BootstrapHooks::Purpose purpose(bootstrap, what);
  try {
    return exchange();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bootstrap && error.code() != ErrorCode::mismatch)
      throw;  // not of the exchange: it was interrupted
    throw Error(error.code(), fmt::format("{}: {}", what, error.what()));
  }
}

/// Runs `step` on every rank, and gathers what it returns, in the order of the ranks. Collective,
/// one exchange. If it throws on some ranks, all ranks throw the error of the lowest of them, and
/// the message names that rank.
template <class Step>
auto gather_agreed(Bootstrap& bootstrap, const char* what, Step step) {
  using Value = decltype(step());
  struct Outcome {
    bool failed;
    ErrorCode code;
    std::array<char, 512> message;
    Value value;
  } mine{};
  try {
    mine.value = step();
  } catch (const Error& error) {
    mine = {true, error.code(), as_text<decltype(mine.message)>(error.what()), {}};
  } catch (const std::exception& error) {
    mine = {true, ErrorCode::backend, as_text<decltype(mine.message)>(error.what()), {}};
  }
  const auto all = on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(mine); });
  const auto first =
      std::find_if(all.begin(), all.end(), [](const Outcome& outcome) { return outcome.failed; });
  if (first != all.end())
    throw Error(first->code, fmt::format("{}: {}", what,
                                         detail::as_said_by(static_cast<int>(first - all.begin()),
                                                            first->message.data())));
  std::vector<Value> values;
  for (const Outcome& outcome : all) values.push_back(outcome.value);
  return values;
}

/// Runs `step` on every rank. Collective. An error on some is one on all, as in `gather_agreed`.
template <class Step>
void agree(Bootstrap& bootstrap, const char* what, Step step) {
  gather_agreed(bootstrap, what, [&] {
    step();
    return std::byte{};
  });
}

}  // namespace plait
