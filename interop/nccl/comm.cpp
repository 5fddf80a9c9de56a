#include "interop/nccl/comm.hpp"

#include <algorithm>

#include "interop/nccl/errors.hpp"

namespace plait::nccl {
namespace {

[[noreturn]] void refuse_second_thread(const char* call) {
  refuse(call,
         "another thread is inside a call of this communicator: one thread at a time may use "
         "it, and ncclCommAbort ends a call that is stuck");
}

}  // namespace

void refuse_ending(const char* call) {
  refuse(call, "the communicator has been destroyed, or another call is about to do so");
}

void Comm::await_use(const char* call) {
  std::unique_lock lock(mutex_);
  if (is_busy_for_a_thread()) refuse_second_thread(call);
  changed_.wait(lock, [&] { return phase_ != Phase::busy; });
  switch (phase_) {
    case Phase::making:
      refuse(call,
             "the communicator is still being made: it can be used when ncclCommGetAsyncError "
             "says ncclSuccess, or after ncclGroupEnd");
    case Phase::finalized:
      refuse(call, "the communicator has been finalised");
    case Phase::failed:
      throw Error(*error_);
    default:
      return;
  }
}

/// With the lock, or a waiting thread could miss it.
void Comm::notify() {
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

Communicator& Comm::look(const char* call) {
  std::unique_lock lock(mutex_);
  if (!communicator_) {
    lock.unlock();
    await_use(call);
  }
  return *communicator_;
}

void Comm::make(const std::function<Communicator()>& make) {
  throw_if_aborted();
  Communicator made = make();
  {
    const std::scoped_lock lock(mutex_);
    on_host_ = made.backend_kind() == BackendKind::host;
    communicator_.emplace(std::move(made));
    phase_ = Phase::ready;
    if (aborted_) communicator_->abort("it was aborted while it was made");
  }
  changed_.notify_all();
}

void Comm::give_up(const Error& error) {
  const std::scoped_lock lock(mutex_);
  if (phase_ != Phase::making) return;
  error_.emplace(error);
  phase_ = Phase::failed;
}

void Comm::take(const char* call, bool waits) {
  for (;;) {
    use(call);
    const std::scoped_lock lock(mutex_);
    if (phase_ != Phase::ready) continue;
    phase_ = Phase::busy;
    is_waited_for_ = waits;
    return;
  }
}

void Comm::occupy(const std::function<void(Communicator&)>& body, Phase after) {
  const auto leave = [&](Phase phase) {
    {
      const std::scoped_lock lock(mutex_);
      phase_ = phase;
    }
    changed_.notify_all();
  };
  try {
    body(*communicator_);
  } catch (...) {
    leave(Phase::ready);
    throw;
  }
  leave(after);
}

Result Comm::state() {
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::making:
    case Phase::busy:
      return Result::in_progress;
    case Phase::finalized:
      return Result::success;
    case Phase::failed: {
      const std::scoped_lock lock(mutex_);
      return result_of(error_->code());
    }
    case Phase::ready:
      break;
  }
  // This rank has ended it by itself, for ncclCommShrink or ncclCommRevoke.
  if (aborted_) return Result::success;
  auto error = communicator_->async_error();
  if (!error) return Result::success;
  const Result result = result_of(error->code());
  const std::scoped_lock lock(mutex_);
  if (!error_) error_ = std::move(error);
  return result;
}

std::string Comm::sentence() {
  const std::scoped_lock lock(mutex_);
  return error_ ? error_->what() : std::string();
}

void Comm::abort(const char* reason) {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  if (communicator_) communicator_->abort(reason);
}

void Comm::refuse_if_inside(const char* call) {
  if (!origin_.is_here()) return;  // a child made by fork has no other thread
  const std::scoped_lock lock(mutex_);
  if (is_busy_for_a_thread()) refuse_second_thread(call);
  if (phase_ != Phase::ready) return;
  try {
    static_cast<void>(communicator_->is_symmetric(nullptr, 0));  // any call that lets in one thread
  } catch (const Error&) {
    refuse_second_thread(call);
  }
}

bool Comm::take_back_end() {
  const std::scoped_lock lock(mutex_);
  if (aborted_) return false;
  is_ending_ = false;
  return true;
}

void Comm::await_calls() noexcept {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return phase_ != Phase::busy && groups_ == 0; });
    if (phase_ != Phase::ready) return;
  }
  try {
    Backend& backend = backend_of(*communicator_);
    const DeviceScope device(backend);
    backend.synchronize_device();
  } catch (const std::exception&) {  // a lost device runs nothing
  }
}

void Comm::throw_if_aborted() const {
  if (aborted_)
    throw Error(ErrorCode::aborted, "this rank has aborted the communicator while it was made");
}

void Comm::close() noexcept {
  await_calls();
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::making) return;  // its job closes it, as its last user
  if (phase_ == Phase::ready) phase_ = Phase::finalized;
  lock.unlock();
  free_retired();
  // The caller knows of its own abort, so the log need not say it.
  if (communicator_ && aborted_) static_cast<void>(communicator_->async_error());
  const int rank = communicator_ ? communicator_->rank() : 0;
  windows_.clear();
  communicator_.reset();
  if (spares.empty() || own_spare_is_used.exchange(true)) return;
  // A group of one rank uses the id up, so that its address is closed.
  try {
    const UniqueId own = spares[static_cast<std::size_t>(rank)];
    if (own != UniqueId()) static_cast<void>(make_socket_bootstrap(own, 0, 1));
  } catch (const std::exception&) {  // then the address stays open until the process ends
  }
}

void Comm::keep(std::shared_ptr<Window> window) {
  const std::scoped_lock lock(mutex_);
  windows_.push_back(std::move(window));
}
void Comm::drop(const std::weak_ptr<Window>& window) {
  const auto last = window.lock();  // destroyed outside the lock
  const std::scoped_lock lock(mutex_);
  std::erase(windows_, last);
}

OpNumber Comm::add(const PreMulSum& op) {
  // Numbers of all communicators differ, so that another's is refused.
  static std::atomic<OpNumber> next = op_count;
  OpNumber number = next;
  do
    if (number == op_last)
      throw Error(ErrorCode::unsupported,
                  "ncclRedOpCreatePreMulSum: this process has used up all numbers of operations");
  while (!next.compare_exchange_weak(number, number + 1));
  const std::scoped_lock lock(mutex_);
  ops_.emplace(number, op);
  return number;
}

bool Comm::remove(OpNumber op) {
  const std::scoped_lock lock(mutex_);
  return ops_.erase(op) != 0;
}

std::optional<PreMulSum> Comm::find(OpNumber op) {
  const std::scoped_lock lock(mutex_);
  const auto found = ops_.find(op);
  if (found == ops_.end()) return std::nullopt;
  return found->second;
}

/// A call may wait for the one that had the memory before, because the calls of a communicator run
/// one after another. A captured call can't wait for work outside of its graph. Freeing waits for
/// the device, so memory is only freed where a call needs another size.
void* Comm::lend(Backend& backend, std::size_t bytes, NativeStream stream, bool is_captured) {
  const std::scoped_lock lock(retired_mutex_);
  const auto fitting = std::find_if(retired_.begin(), retired_.end(), [&](const Retired& old) {
    return old.event != nullptr && old.bytes >= bytes && old.bytes / 2 <= bytes &&
           (!is_captured || old.event->done());
  });
  if (fitting != retired_.end()) {
    if (!is_captured) fitting->event->wait_in(stream);
    void* const memory = fitting->memory;
    retired_.erase(fitting);
    return memory;
  }
  std::erase_if(retired_, [&](const Retired& old) {
    if (old.event == nullptr || !old.event->done()) return false;
    backend.deallocate(old.memory);
    return true;
  });
  return backend.allocate(bytes);
}

void Comm::retire(void* memory, std::size_t bytes, std::unique_ptr<DeviceEvent> event) {
  const std::scoped_lock lock(retired_mutex_);
  retired_.push_back({memory, bytes, std::move(event)});
}

void Comm::free_retired() noexcept {
  if (!communicator_) return;
  const std::scoped_lock lock(retired_mutex_);
  if (retired_.empty()) return;
  try {
    Backend& backend = backend_of(*communicator_);
    const DeviceScope device(backend);
    for (const Retired& old : std::exchange(retired_, {})) {
      if (old.event != nullptr) old.event->synchronize();
      backend.deallocate(old.memory);
    }
  } catch (const std::exception&) {  // a lost device frees nothing
  }
}

}  // namespace plait::nccl
