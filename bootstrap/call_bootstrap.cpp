#include "bootstrap/call_bootstrap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "bootstrap/support.hpp"
#include "plait/error.hpp"

namespace plait {

/// Only its own rank writes it.
struct alignas(64) CallBootstrap::Desk {
  static constexpr std::size_t most_bytes = 2048;

  std::atomic<std::uint64_t> deposited;  // the last exchange for which there is a deposit
  struct Deposit {
    detail::CallId call;
    std::byte data[most_bytes];
  } deposits[2];
};

/// The piece of a call that one exchange moves.
struct CallPiece {
  detail::CallId call;
  std::size_t bytes;  // from this rank; 0: none
};

std::size_t CallBootstrap::desk_bytes() noexcept { return sizeof(Desk); }

CallBootstrap::CallBootstrap(const std::vector<void*>& desks, int rank) : rank_(rank) {
  for (void* const desk : desks) desks_.push_back(static_cast<Desk*>(desk));
  set_nodes(std::vector<int>(desks_.size(), 0));
}

/// Calls `take(rank, data)` for each rank once all ranks have come.
template <class Take>
void CallBootstrap::exchange(const CallPiece& piece, const void* mine, Take take) {
  if (!failure_.empty())
    throw Error(ErrorCode::bootstrap,
                fmt::format("an earlier exchange of the ranks failed: {}", failure_));
  const std::uint64_t number = ++exchanges_;
  Desk& own = *desks_[static_cast<std::size_t>(rank_)];
  Desk::Deposit& deposit = own.deposits[number % 2];
  deposit.call = piece.call;
  if (mine != nullptr) std::memcpy(deposit.data, mine, piece.bytes);
  own.deposited.store(number, std::memory_order_release);
  try {
    throw_if_interrupted();
    for (int rank = 0; rank < size(); ++rank) wait_for(rank);
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw;
  }
  std::vector<std::optional<detail::CallId>> calls;
  for (const Desk* desk : desks_) calls.emplace_back(desk->deposits[number % 2].call);
  if (const auto disagreement = detail::find_disagreement(calls))
    throw Error(ErrorCode::mismatch, *disagreement);
  for (int rank = 0; rank < size(); ++rank)
    take(rank, desks_[static_cast<std::size_t>(rank)]->deposits[number % 2].data);
}

void CallBootstrap::wait_for(int rank) {
  const auto has_come = [&] {
    return desks_[static_cast<std::size_t>(rank)]->deposited.load(std::memory_order_acquire) >=
           exchanges_;
  };
  if (has_come()) return;
  const detail::Deadline deadline(timeout());
  detail::Deadline look(detail::interrupt_period);
  for (Backoff backoff(detail::bootstrap_pace); !has_come(); backoff.pause()) {
    if (!look.expired()) continue;
    throw_if_interrupted();
    look = detail::Deadline(detail::interrupt_period);
    if (deadline.expired())
      throw Error(ErrorCode::timeout,
                  fmt::format("{}: {} is missing, for {}",
                              purposes().empty() ? "an exchange of the ranks" : purposes().front(),
                              detail::list_ranks({rank}), detail::in_seconds(timeout())));
  }
}

/// Data of any size moves in pieces that fit on a desk.
void CallBootstrap::all_gather(const void* in, void* out, std::size_t bytes) {
  detail::check_all_gather(rank_, size(), in, out, bytes);
  const detail::CallId call(detail::CallKind::all_gather, bytes, 0, purposes());
  std::size_t at = 0;
  do {
    const std::size_t now = std::min(bytes - at, Desk::most_bytes);
    exchange({call, now}, now == 0 ? nullptr : static_cast<const std::byte*>(in) + at,
             [&](int from, const std::byte* data) {
               if (now != 0)
                 std::memcpy(
                     static_cast<std::byte*>(out) + static_cast<std::size_t>(from) * bytes + at,
                     data, now);
             });
    at += now;
  } while (at < bytes);
}

void CallBootstrap::broadcast(void* data, std::size_t bytes, int root) {
  detail::check_broadcast(rank_, size(), data, bytes, root);
  const detail::CallId call(detail::CallKind::broadcast, bytes, root, purposes());
  std::size_t at = 0;
  do {
    const std::size_t now = std::min(bytes - at, Desk::most_bytes);
    std::byte* const place = now == 0 ? nullptr : static_cast<std::byte*>(data) + at;
    exchange({call, rank_ == root ? now : 0}, place, [&](int from, const std::byte* sent) {
      if (from == root && rank_ != root && now != 0) std::memcpy(place, sent, now);
    });
    at += now;
  } while (at < bytes);
}

void CallBootstrap::barrier() {
  exchange({detail::CallId(detail::CallKind::barrier, 0, 0, purposes()), 0}, nullptr,
           [](int, const std::byte*) {});
}

std::unique_ptr<Bootstrap> CallBootstrap::split(int, int) {
  throw Error(ErrorCode::unsupported, "split: ranks that meet inside a call have no groups");
}

void CallBootstrap::abandon(const std::string& why, bool) noexcept {
  if (failure_.empty()) failure_ = why;
}

}  // namespace plait
