// NCCL's functions that make communicators.
#include <algorithm>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "interop/nccl/config.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"
#include "interop/nccl/group.hpp"

namespace plait::nccl {
namespace {

/// Makes `comm`, and what it needs to be shrunk later, by `make`. In a job.
void adopt(Comm& comm, const std::function<Communicator()>& make) {
  comm.make([&] {
    Communicator made = make();
    // Two ranks need none: the one that is left meets no other.
    if (made.size() < 3) return made;
    UniqueId own;
    try {
      own = UniqueId::create();
    } catch (const Error& error) {  // the others get an id that is none
      log::info("this communicator can't be shrunk: {}", error.what());
    }
    comm.spares = made.bootstrap().all_gather(own);
    return made;
  });
}

void make_over(Comm& comm, std::unique_ptr<Bootstrap> bootstrap,
               const CommunicatorOptions& options) {
  // Until the communicator has its own means to end a wait.
  BootstrapHooks::set_interrupt(*bootstrap, [&comm] { comm.throw_if_aborted(); });
  adopt(comm, [&] { return Communicator::create(std::move(bootstrap), options); });
}

void make_over_id(Comm& comm, const UniqueId& id, int rank, int size,
                  const CommunicatorOptions& options) {
  // Meeting has Plait's deadline, whatever the calls have.
  make_over(comm, make_socket_bootstrap(id, rank, size), options);
}

std::shared_ptr<Comm> new_comm(const char* call, const CommWishes& wishes) {
  if (!wishes.name.empty()) log::info("{}: the communicator {}", call, in_quotes(wishes.name));
  return std::make_shared<Comm>(wishes.blocking);
}

void check_rank(const char* call, int rank, int size) {
  if (size < 1) refuse(call, fmt::format("{} ranks: it takes at least one", size));
  if (rank < 0 || rank >= size)
    refuse(call, fmt::format("rank {} is none of the ranks 0 to {}", rank, size - 1));
}

/// Runs the job that makes `comm`, whose handle goes to `result`: at once if the caller does not
/// wait for it, or waits for it in ncclGroupEnd. After an error, a caller that waited here has no
/// handle. Others keep it until they destroy it.
Result start(const char* call, const std::shared_ptr<Comm>& comm, CommHandle& result, Job job) {
  job.call = call;
  job.blocking = comm->blocking;
  job.drop = [comm](const Error& error) { comm->give_up(error); };
  const CommHandle handle = give(comm);
  const bool later = Group::of_thread().is_open() || !comm->blocking;
  if (later) result = handle;
  const Result started = run_or_add(std::move(job));
  if (later) return started;
  if (started == Result::success) result = handle;
  else static_cast<void>(Comms::instance().remove(call, id_of(handle)));
  return started;
}

/// `body` returns the result of `start`.
template <class Body>
Result making(const char* call, Body&& body) noexcept {
  Result started = Result::success;
  const Result checked = guarded(call, [&] {
    greet();
    started = body();
  });
  if (checked == Result::success) return started;
  Group::of_thread().poison(checked);
  return checked;
}

Result init_rank(const char* call, CommHandle* comm, int size, const IdBytes* bytes, int rank,
                 const Config* config) noexcept {
  return making(call, [&] {
    CommHandle& result = needed(call, comm, "comm");
    result = nullptr;
    check_rank(call, rank, size);
    const auto made = new_comm(call, comm_wishes(call, config));
    UniqueId id;
    std::copy(std::begin(bytes->bytes), std::end(bytes->bytes), id.bytes.begin());
    const CommunicatorOptions options = options_at(place_of_thread());
    return start(call, made, result,
                 {.call = call, .of = made, .body = [made, id, rank, size, options] {
                    make_over_id(*made, id, rank, size, options);
                  }});
  });
}

}  // namespace
}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclGetUniqueId(IdBytes* id) {
  constexpr const char* call = "ncclGetUniqueId";
  return guarded(call, [&] {
    greet();
    IdBytes& result = needed(call, id, "uniqueId");
    const UniqueId made = UniqueId::create();
    static_assert(sizeof result.bytes == UniqueId::size);
    std::copy(made.bytes.begin(), made.bytes.end(), std::begin(result.bytes));
  });
}

Result plait::nccl::ncclCommInitRank(CommHandle* comm, int ranks, IdBytes id, int rank) {
  return init_rank("ncclCommInitRank", comm, ranks, &id, rank, nullptr);
}

Result plait::nccl::ncclCommInitRankConfig(CommHandle* comm, int ranks, IdBytes id, int rank,
                                           Config* config) {
  return init_rank("ncclCommInitRankConfig", comm, ranks, &id, rank, config);
}

Result plait::nccl::ncclCommInitRankScalable(CommHandle* comm, int ranks, int rank, int ids,
                                             IdBytes* id, Config* config) {
  constexpr const char* call = "ncclCommInitRankScalable";
  // The ranks of a node are few, so one id serves them all. It is rank 0's.
  const Result checked = grouped(call, [&] {
    if (ids < 1 || id == nullptr) refuse(call, "it takes at least one id");
  });
  return checked == Result::success ? init_rank(call, comm, ranks, id, rank, config) : checked;
}

Result plait::nccl::ncclCommInitAll(CommHandle* comms, int devices, const int* list) {
  constexpr const char* call = "ncclCommInitAll";
  return making(call, [&] {
    CommHandle* const results = &needed(call, comms, "comms");
    check_rank(call, 0, devices);
    constexpr int most = 1024;  // each takes a thread
    if (devices > most) refuse(call, fmt::format("{} devices: at most {}", devices, most));
    const BackendKind kind = target();
    if (kind != BackendKind::host && devices > device_count(kind) && list == nullptr)
      refuse(call, fmt::format("{} devices: there are {}", devices, device_count(kind)));
    auto bootstraps = make_thread_bootstraps(devices);
    Group& group = Group::of_thread();
    group.start();
    std::fill_n(results, devices, nullptr);
    static_cast<void>(grouped(call, [&] {
      for (int rank = 0; rank < devices; ++rank) {
        const auto made = new_comm(call, {});
        const int device = list != nullptr ? list[rank] : kind == BackendKind::host ? -1 : rank;
        // A std::function must be copyable.
        auto bootstrap = std::make_shared<std::unique_ptr<Bootstrap>>(
            std::move(bootstraps[static_cast<std::size_t>(rank)]));
        const CommunicatorOptions options = options_at({kind, device});
        static_cast<void>(start(call, made, results[rank],
                                {.call = call, .of = made, .body = [made, bootstrap, options] {
                                   make_over(*made, std::move(*bootstrap), options);
                                 }}));
      }
    }));
    const Result ended = group.end();
    if (ended == Result::success || group.is_open()) return ended;
    for (int rank = 0; rank < devices; ++rank)
      if (const CommHandle handle = std::exchange(results[rank], nullptr); handle != nullptr)
        static_cast<void>(Comms::instance().remove(call, id_of(handle)));
    return ended;
  });
}

Result plait::nccl::ncclCommSplit(CommHandle comm, int colour, int key, CommHandle* part,
                                  Config* config) {
  constexpr const char* call = "ncclCommSplit";
  return making(call, [&] {
    const std::shared_ptr<Comm> parent = *pin(call, comm);
    CommHandle& result = needed(call, part, "newcomm");
    result = nullptr;
    if (colour < 0 && colour != no_colour)
      refuse(call, fmt::format("colour {}: it is 0 or more, or NCCL_SPLIT_NOCOLOR", colour));
    const CommWishes wishes = comm_wishes(call, config, {.blocking = parent->blocking});
    if (colour < 0)
      return run_or_add({.call = call,
                         .of = parent,
                         .takes = true,
                         .body =
                             [parent, key] {
                               parent->occupy([&](Communicator& whole) {
                                 static_cast<void>(whole.split(no_colour, key));
                               });
                             },
                         .blocking = parent->blocking});
    const auto made = new_comm(call, wishes);
    return start(call, made, result,
                 {.call = call, .of = parent, .takes = true, .body = [parent, made, colour, key] {
                    parent->occupy([&](Communicator& whole) {
                      adopt(*made, [&] { return *whole.split(colour, key); });
                    });
                  }});
  });
}

Result plait::nccl::ncclCommShrink(CommHandle comm, int* excluded, int count, CommHandle* rest,
                                   Config* config, int flags) {
  constexpr const char* call = "ncclCommShrink";
  return making(call, [&] {
    const std::shared_ptr<Comm> parent = *pin(call, comm);
    CommHandle& result = needed(call, rest, "newcomm");
    result = nullptr;
    Communicator& whole = parent->use(call);
    const int ranks = whole.size(), own = whole.rank();
    if (count < 1 || count >= ranks)
      refuse(call, fmt::format("{} of {} ranks are excluded", count, ranks));
    if (flags != 0 && flags != shrink_aborts) refuse(call, fmt::format("{} is no flag", flags));
    const int* const list = &needed(call, excluded, "excludeRanksList");
    std::vector<int> left;
    for (int rank = 0; rank < ranks; ++rank)
      if (std::find(list, list + count, rank) == list + count) left.push_back(rank);
    if (static_cast<int>(left.size()) != ranks - count)
      refuse(call, fmt::format("the list of excluded ranks names {} of the ranks 0 to {}: a rank "
                               "comes up twice, or is none of them",
                               ranks - static_cast<int>(left.size()), ranks - 1));
    const auto at = std::find(left.begin(), left.end(), own);
    if (at == left.end()) refuse(call, fmt::format("rank {} excludes itself", own));
    UniqueId id;
    if (left.size() > 1) {
      id = parent->spares.at(static_cast<std::size_t>(left.front()));
      if (id == UniqueId())
        refuse_use(call, fmt::format("rank {} had no address to meet at", left.front()));
      if (parent->was_shrunk.exchange(true))
        refuse_use(call, "this communicator has been shrunk before: shrink the one it became");
      if (left.front() == own) parent->own_spare_is_used = true;
    }
    const CommWishes wishes = comm_wishes(call, config, {.blocking = parent->blocking});
    const BackendKind kind = whole.backend_kind();
    const CommunicatorOptions options =
        options_at({kind, kind == BackendKind::host ? -1 : backend_of(whole).info().ordinal});
    if (flags == shrink_aborts) parent->abort("ncclCommShrink");
    const auto made = new_comm(call, wishes);
    const int rank = static_cast<int>(at - left.begin()), size = ranks - count;
    return start(call, made, result,
                 {.call = call, .of = made, .body = [made, id, rank, size, options] {
                    if (size > 1) return make_over_id(*made, id, rank, size, options);
                    make_over(*made, std::move(make_thread_bootstraps(1).front()), options);
                  }});
  });
}
