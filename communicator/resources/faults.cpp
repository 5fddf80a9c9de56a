#include "communicator/resources/faults.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "communicator/fault/monitor.hpp"

namespace plait {

std::optional<Error> Faults::tell_error() const {
  auto broken = own_.watchdog->await_error();
  if (broken) own_.watchdog->tell();
  return broken;
}

void Faults::throw_told() const {
  if (auto broken = tell_error()) throw *std::move(broken);
}

void Faults::look_and_throw() const {
  own_.watchdog->look();
  throw_if_broken();
}

void Faults::compare_and_throw() const {
  own_.watchdog->compare();
  throw_told();
}

void Faults::throw_broken() const {
  auto broken = tell_error();
  if (!broken) return;
  if (own_.other_nodes) own_.other_nodes->tell_last(std::chrono::milliseconds(100));
  abandon(*broken);
  throw *std::move(broken);
}

void Faults::abandon(const Error& error) const {
  bool lost = error.code() == ErrorCode::timeout, has_left = false;
  // A rank that has only left the communicator still takes part in what the job does at its end. If
  // none has, one has ended, also if this rank only heard of it.
  for (int rank = 0; rank < own_.size(); ++rank) {
    lost = lost || (error.code() == ErrorCode::rank_lost && !own_.board->is_alive(rank));
    has_left = has_left || !own_.board->departure(rank).empty();
  }
  lost = lost || (error.code() == ErrorCode::rank_lost && !has_left);
  BootstrapHooks::abandon(*own_.bootstrap, error.what(), lost);
}

void Faults::abort(std::string_view reason) const {
  own_.watchdog->abort(ErrorCode::aborted,
                       fmt::format("rank {} has aborted the communicator{}{}", own_.rank(),
                                   reason.empty() ? "" : ": ", reason));
}

void Faults::interrupt_waits() {
  own_.for_each_group([this](Bootstrap& group) {
    BootstrapHooks::set_interrupt(group, [this] { look_and_throw(); });
  });
  own_.in_calls->set_timeout(own_.settings.timeout);
  BootstrapHooks::set_interrupt(*own_.in_calls, [this] {
    own_.watchdog->look();
    throw_told();
  });
  BootstrapHooks::set_farewell(*own_.bootstrap,
                               [this] { own_.board->announce(Board::State::ending); });
}

void Faults::leave_waits() {
  own_.for_each_group([](Bootstrap& group) { BootstrapHooks::set_interrupt(group, {}); });
  BootstrapHooks::set_farewell(*own_.bootstrap, {});
}

/// A device may fail because a peer's process has ended: processes that share a GPU through MPS
/// share its faults, too, and kernels may have been using the peer's memory. Then the error is the
/// lost rank, and this names both. Returns if the failure is not the device's, or no rank is lost.
void Faults::throw_if_lost(const std::exception& failure) const {
  const auto* const error = dynamic_cast<const Error*>(&failure);
  if (error == nullptr || error->code() != ErrorCode::backend) return;
  // The device may know before the system says that the process has ended.
  const auto until = std::chrono::steady_clock::now() + 4 * monitor_period;
  for (own_.watchdog->look(); !own_.watchdog->is_broken(); own_.watchdog->look()) {
    if (std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto broken = tell_error();
  if (!broken || broken->code() != ErrorCode::rank_lost) return;
  throw Error(ErrorCode::rank_lost,
              fmt::format("{}; this process has lost its device with it, and can't use that any "
                          "more: {}",
                          broken->what(), failure.what()));
}

}  // namespace plait
