#include "communicator/event.hpp"

#include <fmt/format.h>

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "backends/backend.hpp"
#include "core/float_environment.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"

namespace plait {

class EventState {
 public:
  EventState(std::shared_ptr<Backend> on, std::unique_ptr<DeviceEvent> made)
      : backend(std::move(on)), event(std::move(made)) {}
  ~EventState();
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;

  const Origin origin{};
  std::shared_ptr<Backend> backend;
  std::unique_ptr<DeviceEvent> event;
};

namespace {

/// The events that Plait has made and that still exist, by their handles. On the host, where
/// handles are only Plait's, all others are refused.
struct Events {
  std::mutex mutex;
  std::unordered_map<void*, std::weak_ptr<EventState>> all;

  static Events& of_process() {
    static OfProcess<Events> events;
    return events.get();
  }
};

EventState& state_of(const std::shared_ptr<EventState>& state, std::string_view call) {
  if (state == nullptr)
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: this event was moved from", call));
  state->origin.require(call, "event");
  return *state;
}

NativeStream checked(const EventState& event, std::string_view call, StreamRef stream) {
  if (group_is_open())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a group is open, so its calls are not enqueued yet: use the event "
                            "after its end",
                            call));
  if (!event.backend->is_live(stream.native()))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} is no stream: it has been destroyed, or is the stream of "
                            "another target",
                            call, stream.native()));
  return event.backend->resolve(stream.native());
}

}  // namespace

EventState::~EventState() {
  if (!origin.is_here()) {  // the runtime is the parent's
    keep_for_ever(std::move(event));
    keep_for_ever(std::move(backend));
    return;
  }
  {
    Events& events = Events::of_process();
    const std::lock_guard lock(events.mutex);
    // A borrowed event is not in there.
    if (const auto found = events.all.find(event->native());
        found != events.all.end() && found->second.expired())
      events.all.erase(found);
  }
  const FloatEnvironment defaults;
  event.reset();
}

Event make_event(std::shared_ptr<Backend> backend) {
  const DeviceScope device(*backend);
  auto made = backend->create_event(false);
  void* const native = made->native();
  auto state = std::make_shared<EventState>(std::move(backend), std::move(made));
  Events& events = Events::of_process();
  const std::lock_guard lock(events.mutex);
  events.all.insert_or_assign(native, state);
  return Event(std::move(state));
}

Event find_event(std::shared_ptr<Backend> backend, void* native) {
  constexpr const char* call = "wrap_event";
  if (native == nullptr)
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: the event is null", call));
  {
    Events& events = Events::of_process();
    const std::lock_guard lock(events.mutex);
    if (const auto found = events.all.find(native); found != events.all.end())
      if (auto state = found->second.lock()) return Event(std::move(state));
  }
  const DeviceScope device(*backend);
  auto borrowed = backend->borrow_event(native);
  if (borrowed == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} is no event, or has been destroyed", call, native));
  return Event(std::make_shared<EventState>(std::move(backend), std::move(borrowed)));
}

void Event::record(StreamRef stream) const {
  const EventState& own = state_of(state_, "Event::record");
  const NativeStream resolved = checked(own, "Event::record", stream);
  const DeviceScope device(*own.backend);
  own.event->record(resolved);
}

void Event::wait(StreamRef stream) const {
  const EventState& own = state_of(state_, "Event::wait");
  const NativeStream resolved = checked(own, "Event::wait", stream);
  const DeviceScope device(*own.backend);
  own.event->wait_in(resolved);
}

bool Event::test() const {
  const EventState& own = state_of(state_, "Event::test");
  const DeviceScope device(*own.backend);
  return own.event->test();
}

void Event::synchronize() const {
  const EventState& own = state_of(state_, "Event::synchronize");
  const DeviceScope device(*own.backend);
  own.event->synchronize();
}

void* Event::native() const { return state_of(state_, "Event::native").event->native(); }

}  // namespace plait
