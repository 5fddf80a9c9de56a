// plait.h: communicators, memory, streams, and the end of calls.
#include <algorithm>
#include <iterator>
#include <map>

#include "interop/c/arguments.hpp"
#include "plait/unique_id.hpp"

namespace plait::c {
namespace {

/// What `plait_stream_create` and `plait_event_create` have made. The caller gets the runtime's own
/// stream or event instead of a handle, so that other libraries can use it.
template <class T>
struct Made {
  std::mutex mutex;
  std::map<void*, T> all;

  static Made& instance() {
    static auto* made = new Made;  // never destroyed: a device's runtime may be gone earlier
    return *made;
  }
};
using Streams = Made<Stream>;
using Events = Made<Event>;

/// Runs `body(Communicator&)`.
template <class Body>
plait_status with(const char* call, plait_comm comm, Body&& body) noexcept {
  return guarded(call, [&] {
    const auto owner = Communicators::instance().pin(call, id_of(comm));
    body(owner->comm);
  });
}

/// Writes `ask(Communicator&)` to `*result`.
template <class T, class Ask>
plait_status tell(const char* call, plait_comm comm, T* result, const char* name,
                  Ask&& ask) noexcept {
  return with(call, comm, [&](Communicator& of) {
    T& place = needed({call, of.rank()}, result, name);
    place = static_cast<T>(ask(of));
  });
}

/// Writes the text `ask(Communicator&)`.
template <class Ask>
plait_status tell_text(const char* call, plait_comm comm, char* text, std::size_t capacity,
                       std::size_t* length, Ask&& ask) noexcept {
  return with(call, comm, [&](Communicator& of) {
    check_place({call, of.rank()}, text, capacity);
    write_text(ask(of), text, capacity, length);
  });
}

/// A call that is stuck in another thread ends by plait_abort alone, which needs the handle.
void refuse_if_inside(const char* call, const Owner& owner) {
  if (!owner.origin.is_here()) return;  // a child made by fork has no other thread
  try {
    static_cast<void>(owner.comm.is_symmetric(nullptr, 0));
  } catch (const Error&) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: rank {}: another thread is inside a call of this communicator: one "
                    "thread at a time may use it, and plait_abort ends a call that is stuck",
                    call, owner.comm.rank()));
  }
}

plait_comm give(Communicator comm) {
  return handle_of<plait_comm>(
      Communicators::instance().insert(std::make_unique<Owner>(Owner{std::move(comm)})));
}

}  // namespace
}  // namespace plait::c

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::c;

// --- communicators -------------------------------------------------------------------------------

plait_status plait_comm_create_world(const plait_config* config, plait_comm* comm) {
  return create("plait_comm_create_world", config, comm, [](const CommunicatorOptions& options) {
    return make_world_communicator(options);
  });
}

plait_status plait_unique_id_create(plait_unique_id* id) {
  constexpr const char* call = "plait_unique_id_create";
  static_assert(sizeof id->bytes == UniqueId::size);
  return guarded(call, [&] {
    plait_unique_id& result = needed(call, id, "id");
    const UniqueId made = UniqueId::create();
    std::copy(made.bytes.begin(), made.bytes.end(), result.bytes);
  });
}

plait_status plait_comm_create_with_id(const plait_unique_id* id, int rank, int size,
                                       const plait_config* config, plait_comm* comm) {
  constexpr const char* call = "plait_comm_create_with_id";
  return create(call, config, comm, [&](const CommunicatorOptions& options) {
    const plait_unique_id& given = needed({call, rank}, id, "id");
    UniqueId copy;
    std::copy(std::begin(given.bytes), std::end(given.bytes), copy.bytes.begin());
    return make_communicator(copy, rank, size, options);
  });
}

plait_status plait_comm_split(plait_comm comm, int color, int key, plait_comm* part) {
  constexpr const char* call = "plait_comm_split";
  return with(call, comm, [&](Communicator& of) {
    plait_comm& result = needed(call, part, "part");
    auto made = of.split(color, key);
    result = made ? give(*std::move(made)) : nullptr;
  });
}

plait_status plait_comm_duplicate(plait_comm comm, plait_comm* copy) {
  constexpr const char* call = "plait_comm_duplicate";
  return with(call, comm, [&](Communicator& of) {
    plait_comm& result = needed(call, copy, "copy");
    result = give(of.duplicate());
  });
}

plait_status plait_comm_destroy(plait_comm comm) {
  constexpr const char* call = "plait_comm_destroy";
  return guarded(call, [&] {
    refuse_if_inside(call, *Communicators::instance().pin(call, id_of(comm)));
    const auto owner = Communicators::instance().remove(call, id_of(comm));
    for (const HandleId buffer : owner->buffers) BufferHandles::instance().remove(call, buffer);
  });
}

plait_status plait_comm_rank(plait_comm comm, int* rank) {
  return tell("plait_comm_rank", comm, rank, "rank", [](Communicator& of) { return of.rank(); });
}
plait_status plait_comm_size(plait_comm comm, int* size) {
  return tell("plait_comm_size", comm, size, "size", [](Communicator& of) { return of.size(); });
}
plait_status plait_comm_backend(plait_comm comm, plait_backend* backend) {
  return tell("plait_comm_backend", comm, backend, "backend",
              [](Communicator& of) { return of.backend_kind(); });
}
plait_status plait_comm_describe(plait_comm comm, char* text, size_t capacity, size_t* length) {
  return tell_text("plait_comm_describe", comm, text, capacity, length,
                   [](Communicator& of) { return of.describe(); });
}

// --- memory and streams --------------------------------------------------------------------------

plait_status plait_size_of(plait_data_type type, size_t* bytes) {
  constexpr const char* call = "plait_size_of";
  return guarded(call, [&] { needed(call, bytes, "bytes") = size_of(data_type(call, type)); });
}

plait_status plait_reserve(plait_comm comm) {
  return with("plait_reserve", comm, [](Communicator& of) { of.reserve(); });
}

namespace {

/// A handle for the memory that `make(communicator)` makes symmetric.
template <class Make>
plait_status make_buffer(const char* call, plait_comm comm, size_t bytes, plait_buffer* buffer,
                         Make make) {
  return guarded(call, [&] {
    const auto owner = Communicators::instance().pin(call, id_of(comm));
    plait_buffer& result = needed(call, buffer, "buffer");
    owner->buffers.reserve(owner->buffers.size() + 1);
    std::shared_ptr<Window> window = make(owner->comm);
    void* const pointer = detail::local_pointer(*window);
    const HandleId id = BufferHandles::instance().insert(
        std::make_unique<Allocation>(Allocation{id_of(comm), std::move(window), pointer, bytes}));
    owner->buffers.push_back(id);
    result = handle_of<plait_buffer>(id);
  });
}

/// Removes the handle, once `end(communicator, window)` has returned.
template <class End>
plait_status end_buffer(const char* call, plait_buffer buffer, End end) {
  return guarded(call, [&] {
    const HandleId id = id_of(buffer), comm = BufferHandles::instance().pin(call, id)->owner;
    const auto owner = Communicators::instance().pin(call, comm);  // must outlive its memory
    end(owner->comm, BufferHandles::instance().pin(call, id)->window);
    const auto allocation = BufferHandles::instance().remove(call, id);
    std::erase_if(owner->buffers, [&](HandleId other) { return other.value == id.value; });
  });
}

template <class T, class Get>
plait_status tell_of(const char* call, plait_buffer buffer, T* result, const char* name, Get get) {
  return guarded(call, [&] {
    const auto allocation = BufferHandles::instance().pin(call, id_of(buffer));
    needed(call, result, name) = get(*allocation);
  });
}

}  // namespace

plait_status plait_buffer_allocate(plait_comm comm, size_t bytes, plait_buffer* buffer) {
  return make_buffer("plait_buffer_allocate", comm, bytes, buffer,
                     [&](Communicator& of) { return of.allocate_bytes(bytes); });
}
plait_status plait_buffer_attach(plait_comm comm, void* pointer, size_t bytes,
                                 plait_buffer* buffer) {
  return make_buffer("plait_buffer_attach", comm, bytes, buffer,
                     [&](Communicator& of) { return of.attach(pointer, bytes); });
}
plait_status plait_buffer_detach(plait_buffer buffer) {
  return end_buffer("plait_buffer_detach", buffer,
                    [](Communicator& of, const auto& window) { of.detach(window); });
}
plait_status plait_buffer_free(plait_buffer buffer) {
  return end_buffer("plait_buffer_free", buffer, [](Communicator&, const auto&) {});
}

plait_status plait_buffer_pointer(plait_buffer buffer, void** pointer) {
  return tell_of("plait_buffer_pointer", buffer, pointer, "pointer",
                 [](const Allocation& of) { return of.pointer; });
}
plait_status plait_buffer_peer(plait_buffer buffer, int rank, void** pointer) {
  return tell_of("plait_buffer_peer", buffer, pointer, "pointer", [&](const Allocation& of) {
    return Communicators::instance().pin("plait_buffer_peer", of.owner)->comm.peer(of.window, rank);
  });
}
plait_status plait_buffer_bytes(plait_buffer buffer, size_t* bytes) {
  return tell_of("plait_buffer_bytes", buffer, bytes, "bytes",
                 [](const Allocation& of) { return of.bytes; });
}
plait_status plait_is_symmetric(plait_comm comm, const void* pointer, size_t bytes, int* result) {
  return tell("plait_is_symmetric", comm, result, "result",
              [&](Communicator& of) { return of.is_symmetric(pointer, bytes); });
}

plait_status plait_stream_create(plait_comm comm, plait_stream_t* stream) {
  constexpr const char* call = "plait_stream_create";
  return with(call, comm, [&](Communicator& of) {
    plait_stream_t& result = needed(call, stream, "stream");
    Stream made = of.create_stream();
    void* const native = made.native();
    Streams& streams = Streams::instance();
    const std::scoped_lock lock(streams.mutex);
    streams.all.emplace(native, std::move(made));
    result = native;
  });
}

plait_status plait_stream_destroy(plait_stream_t stream) {
  constexpr const char* call = "plait_stream_destroy";
  return guarded(call, [&] {
    Streams& streams = Streams::instance();
    std::unique_lock lock(streams.mutex);
    const auto destroyed = streams.all.extract(stream);
    lock.unlock();  // the destructor may wait for work on the stream
    if (destroyed.empty())
      refuse(call,
             fmt::format("{} is no stream of plait_stream_create, or has been destroyed", stream));
  });
}

plait_status plait_event_create(plait_comm comm, plait_event_t* event) {
  constexpr const char* call = "plait_event_create";
  return with(call, comm, [&](Communicator& of) {
    plait_event_t& result = needed(call, event, "event");
    const Event made = of.create_event();
    Events& events = Events::instance();
    const std::scoped_lock lock(events.mutex);
    events.all.insert_or_assign(made.native(), made);
    result = made.native();
  });
}

plait_status plait_event_destroy(plait_event_t event) {
  constexpr const char* call = "plait_event_destroy";
  return guarded(call, [&] {
    Events& events = Events::instance();
    const std::scoped_lock lock(events.mutex);
    if (events.all.erase(event) == 0)
      refuse(call,
             fmt::format("{} is no event of plait_event_create, or has been destroyed", event));
  });
}

plait_status plait_event_record(plait_comm comm, plait_event_t event, plait_stream_t stream) {
  return with("plait_event_record", comm,
              [&](Communicator& of) { of.wrap_event(event).record(stream_ref(stream)); });
}
plait_status plait_event_wait(plait_comm comm, plait_event_t event, plait_stream_t stream) {
  return with("plait_event_wait", comm,
              [&](Communicator& of) { of.wrap_event(event).wait(stream_ref(stream)); });
}
plait_status plait_event_test(plait_comm comm, plait_event_t event, int* done) {
  return tell("plait_event_test", comm, done, "done",
              [&](Communicator& of) { return of.wrap_event(event).test(); });
}
plait_status plait_event_synchronize(plait_comm comm, plait_event_t event) {
  return with("plait_event_synchronize", comm,
              [&](Communicator& of) { of.wrap_event(event).synchronize(); });
}

plait_status plait_copy(plait_comm comm, void* to, const void* from, size_t bytes,
                        plait_stream_t stream) {
  constexpr const char* call = "plait_copy";
  return with(call, comm, [&](Communicator& of) { of.copy(to, from, bytes, stream_ref(stream)); });
}

// --- the end of calls, and what became of them ---------------------------------------------------

plait_status plait_synchronize(plait_comm comm, plait_stream_t stream) {
  return with("plait_synchronize", comm,
              [&](Communicator& of) { of.synchronize(stream_ref(stream)); });
}

plait_status plait_test(plait_comm comm, plait_stream_t stream, int* done) {
  return tell("plait_test", comm, done, "done",
              [&](Communicator& of) { return of.test(stream_ref(stream)); });
}

plait_status plait_wait_any(plait_comm comm, const plait_stream_t* streams, size_t count,
                            size_t* index) {
  constexpr const char* call = "plait_wait_any";
  return tell(call, comm, index, "index", [&](Communicator& of) {
    std::vector<StreamRef> all;
    if (count != 0) needed({call, of.rank()}, streams, "streams");
    for (std::size_t i = 0; i < count; ++i) all.push_back(stream_ref(streams[i]));
    return of.wait_any(all);
  });
}

plait_status plait_async_error(plait_comm comm, plait_status* status) {
  return tell("plait_async_error", comm, status, "status", [](Communicator& of) {
    const auto error = of.async_error();
    return error ? fail(*error) : PLAIT_SUCCESS;
  });
}

plait_status plait_abort(plait_comm comm, const char* reason) {
  return with("plait_abort", comm,
              [&](Communicator& of) { of.abort(reason == nullptr ? "" : reason); });
}

plait_status plait_progress_of(plait_comm comm, plait_progress* progress) {
  constexpr const char* call = "plait_progress_of";
  return with(call, comm, [&](Communicator& of) {
    plait_progress& to = needed(call, progress, "progress");
    check_size(call, "plait_progress", to.size, sizeof(plait_progress));
    const Progress from = of.progress();
    put(to, &plait_progress::blocks, std::uint64_t{from.blocks.size()});
    put(to, &plait_progress::started, from.started);
    put(to, &plait_progress::completed, from.completed);
  });
}

plait_status plait_statistics_of(plait_comm comm, plait_statistics* statistics) {
  constexpr const char* call = "plait_statistics_of";
  return with(call, comm, [&](Communicator& of) {
    using S = plait_statistics;
    S& to = needed(call, statistics, "statistics");
    check_size(call, "plait_statistics", to.size, sizeof(S));
    const Statistics from = of.statistics();
    put(to, &S::calls, from.calls);
    put(to, &S::launches, from.launches);
    put(to, &S::groups, from.groups);
    put(to, &S::batched, from.batched);
    put(to, &S::launches_in_arguments, from.in_arguments.launches);
    put(to, &S::items_in_arguments, from.in_arguments.items);
    put(to, &S::launches_in_fifo, from.in_fifo.launches);
    put(to, &S::items_in_fifo, from.in_fifo.items);
    put(to, &S::launches_persistent, from.persistent.launches);
    put(to, &S::items_persistent, from.persistent.items);
    put(to, &S::fifo_bytes, std::uint64_t{from.fifo_bytes});
    put(to, &S::fifo_bytes_in_use, std::uint64_t{from.fifo_bytes_in_use});
    put(to, &S::fifo_waits, from.fifo_waits);
    put(to, &S::scratch_bytes, from.scratch_bytes);
    put(to, &S::scratch_bytes_committed, from.scratch_bytes_committed);
  });
}

plait_status plait_chosen(plait_comm comm, const plait_call* call,
                          const plait_call_options* options, char* text, size_t capacity,
                          size_t* length) {
  return tell_text("plait_chosen", comm, text, capacity, length, [&](Communicator& of) {
    const Where where("plait_chosen", of.rank());
    const CallOptions wishes = call_options(where, options);
    return of.chosen(described_call(where, call), wishes);
  });
}

plait_status plait_explain(plait_comm comm, const plait_call* call,
                           const plait_call_options* options, char* text, size_t capacity,
                           size_t* length) {
  return tell_text("plait_explain", comm, text, capacity, length, [&](Communicator& of) {
    const Where where("plait_explain", of.rank());
    const CallOptions wishes = call_options(where, options);
    return of.explain(described_call(where, call), wishes);
  });
}
