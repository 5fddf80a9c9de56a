#include "communicator/communicator_state.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/log.hpp"

namespace plait {
namespace {

/// A part waits for its ranks while it is made. That ends when the parent breaks.
std::unique_ptr<Bootstrap> interruptible(std::unique_ptr<Bootstrap> bootstrap,
                                         const CommunicatorState* parent) {
  if (parent != nullptr)
    BootstrapHooks::set_interrupt(*bootstrap, [parent] { parent->faults.look_and_throw(); });
  return bootstrap;
}

}  // namespace

CommunicatorState::CommunicatorState(std::unique_ptr<Bootstrap> bootstrap,
                                     const CommunicatorOptions& options,
                                     const CommunicatorState* parent, HostDevices host)
    : resources(interruptible(std::move(bootstrap), parent), options,
                parent != nullptr ? &parent->resources : nullptr, host) {
  agree(*resources.bootstrap, "creating the watchdog, work memory, streams and threads", [&] {
    resources.make_local(parent != nullptr ? &parent->resources : nullptr);
    path.start();
    if (resources.size() > 1) watch_others();
  });
  faults.interrupt_waits();
  remember_device(*resources.backend);
  resources.creating.reset();
}

void CommunicatorState::watch_others() {
  const auto look = [this] {
    resources.watchdog->look();
    if (resources.other_nodes) resources.other_nodes->tell();
  };
  const auto await = [this](std::chrono::steady_clock::time_point until) {
    if (resources.other_nodes && !resources.watchdog->is_broken())
      resources.other_nodes->tell_last(until - std::chrono::steady_clock::now());
  };
  monitored_.emplace(look, LastWords{.announce = [this] { announce_end(); }, .await = await});
}

/// The process ends, and the communicator still exists. If its work has ended, no call that the
/// other ranks have made needs this one.
void CommunicatorState::announce_end() noexcept {
  if (!resources.watchdog->is_broken() && resources.order->is_idle())
    resources.board->announce(Board::State::ending);
  if (resources.other_nodes) resources.other_nodes->tell();
}

/// Waits for all enqueued work. The monitor still looks, so a kernel that waits for a peer ends if
/// that peer has aborted or is lost.
void CommunicatorState::finish() noexcept {
  path.launcher().drain();
  try {
    const DeviceScope device(*resources.backend);
    resources.backend->synchronize_device();
  } catch (const std::exception&) {  // a lost device runs nothing
  }
}

CommunicatorState::~CommunicatorState() {
  if (const std::size_t calls = OpenGroup::of_thread().forget(path); calls != 0)
    log::warn(
        "rank {}: a communicator is destroyed with calls in a group that has not ended: {} of "
        "them, never enqueued",
        resources.rank(), calls);
  finish();
  monitored_.reset();
  // The monitor may not have seen a loss yet, and the bootstrap must not wait for a lost rank.
  resources.watchdog->look();
  warn_of_left_over();
  resources.board->announce(Board::State::left);
  if (resources.other_nodes) resources.other_nodes->tell();
  faults.leave_waits();
  const auto broken = resources.watchdog->await_error();
  if (!broken) return;
  if (resources.other_nodes) resources.other_nodes->channels().hurry();
  if (!resources.watchdog->was_told()) log::error("{}", broken->what());
  faults.abandon(*broken);
}

/// Warns of messages that can't be received any more. Graphs may have received some of them, which
/// is not known, so there is no warning once a message was captured.
void CommunicatorState::warn_of_left_over() const {
  if (resources.watchdog->await_error() || path.launcher().captures_messages()) return;
  if (const std::string left = resources.board->left_over(); !left.empty())
    log::warn(
        "rank {}: a communicator is destroyed with messages that this rank has not received: {}",
        resources.rank(), left);
}

/// For functions that a group does not collect.
void CommunicatorState::check_not_grouped(std::string_view what,
                                          std::string_view consequence) const {
  if (OpenGroup::of_thread().has_calls_of(path))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: rank {}: this communicator has calls in a group that has not ended: {}",
                    what, resources.rank(), consequence));
}

/// Collective even if there is nothing to allocate, so a program may do the same on every target.
void CommunicatorState::reserve() {
  constexpr const char* what = "reserve";
  Bootstrap& bootstrap = *resources.bootstrap;
  check_not_grouped(what, "they would be enqueued after it");
  faults.throw_if_broken();
  const BootstrapHooks::Purpose purpose(bootstrap, what);
  // After the barrier, all ranks have published their earlier calls.
  on_behalf_of(bootstrap, what, [&] { bootstrap.barrier(); });
  agree(bootstrap, what, [&] {
    // Later messages may use other memory than earlier ones, so both ends of a message must be on
    // one side of this call.
    if (const std::string apart = resources.board->apart(); !apart.empty())
      throw Error(
          ErrorCode::mismatch,
          fmt::format("messages have one end before this call and one after it: {}", apart));
  });
  const DeviceScope device(*resources.backend);
  resources.memory->reserve(bootstrap, what);
}

void CommunicatorState::copy(void* to, const void* from, std::size_t bytes, StreamRef stream) {
  check_not_grouped("copy", "the copy would run before them");
  if (bytes == 0) return;
  if (to == nullptr || from == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy: rank {}: {} is null, with {} bytes", resources.rank(),
                            to == nullptr ? "to" : "from", bytes));
  resources.check_live("copy", stream.native());
  static_cast<void>(path.preparer().find("copy", "to", to, bytes));
  static_cast<void>(path.preparer().find("copy", "from", from, bytes));
  Backend& backend = *resources.backend;
  const DeviceScope device(backend);
  const NativeStream resolved = backend.resolve(stream.native());
  resources.order->enter_copy(resolved);
  backend.copy(to, from, bytes, resolved);
  resources.order->leave_copy(resolved);
}

void CommunicatorState::synchronize(StreamRef stream) {
  check_not_grouped("synchronize", "nothing would wait for them");
  resources.check_live("synchronize", stream.native());
  const DeviceScope device(*resources.backend);
  faults.waiting(
      [&] { resources.order->synchronize(resources.backend->resolve(stream.native())); });
  resources.watchdog->compare_now_and_then();
  faults.throw_if_broken();
}

/// The stream of `test` or `wait_any`, resolved.
NativeStream CommunicatorState::check_waited(std::string_view what, StreamRef stream) {
  check_not_grouped(what, "their end can't be seen yet");
  resources.check_live(what, stream.native());
  const NativeStream resolved = resources.backend->resolve(stream.native());
  if (resources.backend->is_capturing(resolved))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: the stream is being captured, so nothing of it runs",
                            what, resources.rank()));
  return resolved;
}

/// Throws what `synchronize` would, and not before the stream is empty, so no kernel uses the
/// buffers any more. A broken communicator's kernels end by themselves.
bool CommunicatorState::has_ended(NativeStream stream) {
  if (!faults.waiting([&] { return resources.order->is_done(stream); })) return false;
  resources.watchdog->compare_now_and_then();
  faults.throw_if_broken();
  return true;
}

bool CommunicatorState::test(StreamRef stream) {
  const DeviceScope device(*resources.backend);
  return has_ended(check_waited("test", stream));
}

std::size_t CommunicatorState::wait_any(std::span<const StreamRef> streams) {
  constexpr const char* what = "wait_any";
  if (streams.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: no streams", what, resources.rank()));
  const DeviceScope device(*resources.backend);
  std::vector<NativeStream> resolved;
  resolved.reserve(streams.size());
  for (const StreamRef stream : streams) resolved.push_back(check_waited(what, stream));
  for (Backoff backoff(stream_pace);; backoff.pause())
    for (std::size_t i = 0; i < resolved.size(); ++i)
      if (has_ended(resolved[i])) return i;
}

}  // namespace plait
