// Errors of steps that ranks take together. An error on one rank becomes the same error on all, and
// an error of the exchange itself names its purpose.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/nodes.hpp"
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

/// An error that all ranks of a group throw. Its text says what failed and on which rank.
class AgreedError final : public Error {
 public:
  using Error::Error;
};

/// The words of rank `rank`, at most 511 characters. Collective, one exchange.
inline std::string words_of(Bootstrap& bootstrap, const char* what, int rank,
                            std::string_view mine) {
  using Words = std::array<char, 512>;
  return on_behalf_of(bootstrap, what,
                      [&] { return bootstrap.broadcast(as_text<Words>(mine), rank); })
      .data();
}

/// Runs `step` on every rank, and gathers what it returns, in the order of the ranks. Collective,
/// one exchange. If it throws on some ranks, all ranks throw the error of the lowest of them, and
/// the message names that rank, by `numbers` if given. Then it takes an exchange more, so that no
/// rank keeps the room for a message from each. An `AgreedError` of a part of the ranks keeps its
/// text.
template <class Step>
auto gather_agreed(Bootstrap& bootstrap, const char* what, Step step,
                   const std::vector<int>* numbers = nullptr) {
  using Value = decltype(step());
  struct Outcome {
    bool failed, agreed;
    ErrorCode code;
    Value value;
  } mine{};
  std::string message;
  const auto failed = [&](ErrorCode code, const char* why, bool agreed) {
    mine = {true, agreed, code, {}};
    message = why;
  };
  try {
    mine.value = step();
  } catch (const AgreedError& error) {
    failed(error.code(), error.what(), true);
  } catch (const Error& error) {
    failed(error.code(), error.what(), false);
  } catch (const std::exception& error) {
    failed(ErrorCode::backend, error.what(), false);
  }
  const auto all = on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(mine); });
  std::vector<Value> values;
  values.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Outcome& outcome = all[i];
    values.push_back(outcome.value);
    if (!outcome.failed) continue;
    const int rank = static_cast<int>(i);
    const std::string words = words_of(bootstrap, what, rank, message);
    if (outcome.agreed) throw AgreedError(outcome.code, words);
    throw AgreedError(
        outcome.code,
        fmt::format("{}: {}", what,
                    detail::as_said_by(numbers == nullptr ? rank : (*numbers)[i], words)));
  }
  return values;
}

/// Runs `step` on every rank. Collective. An error on some is one on all, as in `gather_agreed`.
template <class Step>
void agree(Bootstrap& bootstrap, const char* what, Step step,
           const std::vector<int>* numbers = nullptr) {
  gather_agreed(
      bootstrap, what,
      [&] {
        step();
        return std::byte{};
      },
      numbers);
}

/// The same among the ranks of this node alone. Collective over these. Where there are several
/// nodes, it is a step of an agreement of all: an error then reaches the other nodes with that.
template <class Step>
void agree_here(const Nodes& nodes, const char* what, Step step) {
  agree(nodes.group_here(), what, step, &nodes.ranks_here());
}

}  // namespace plait
