#include "support/ranks.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "backends/backend.hpp"

namespace plait::test {
namespace {

std::unique_ptr<RankGroup>& cache() {
  static std::unique_ptr<RankGroup> group;
  return group;
}

BackendKind find_target() {
  if (const char* name = std::getenv("PLAIT_BACKEND"); name != nullptr && *name != '\0')
    return parse_backend(name);
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::hip})
    if (device_count(kind) > 0) return kind;
  return BackendKind::host;
}

}  // namespace

BackendKind target() {
  static const BackendKind kind = find_target();  // a test may change the environment later
  return kind;
}

std::string why_not(int ranks) {
  if (target() == BackendKind::host || ranks <= device_count(target())) return {};
  return std::to_string(ranks) + " ranks need as many devices; there are " +
         std::to_string(device_count(target()));
}

CommunicatorOptions test_options(CommunicatorOptions options) {
  if (!options.backend) options.backend = target();
  if (!options.timeout) options.timeout = patience;
  return options;
}

void on_threads(int ranks, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

RankGroup::RankGroup(int ranks, const CommunicatorOptions& options)
    : members_(static_cast<std::size_t>(ranks)) {
  auto bootstraps = make_thread_bootstraps(ranks);
  try {
    on_threads(ranks, [&](int rank) {
      const auto index = static_cast<std::size_t>(rank);
      bootstraps[index]->set_timeout(patience);
      members_[index].comm = std::make_unique<Communicator>(
          Communicator::create(std::move(bootstraps[index]), test_options(options)));
      members_[index].arena = std::make_unique<Arena>(*members_[index].comm);
    });
  } catch (...) {
    destroy();
    throw;
  }
}

RankGroup::~RankGroup() { destroy(); }

void RankGroup::destroy() noexcept {
  try {
    on_threads(ranks(), [&](int rank) {
      Member& member = members_[static_cast<std::size_t>(rank)];
      member.arena.reset();
      member.comm.reset();
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "destroying a group of ranks: %s\n", error.what());
  }
}

void RankGroup::run(const Body& body) {
  try {
    on_threads(ranks(), [&](int rank) {
      const Member& member = members_[static_cast<std::size_t>(rank)];
      const DeviceScope device(backend_of(*member.comm));  // a new thread begins with device 0
      body(*member.comm, *member.arena);
    });
  } catch (...) {
    broken_ = true;
    throw;
  }
}

RankGroup& RankGroup::cached(int ranks) {
  auto& group = cache();
  if (!group || group->broken() || group->ranks() != ranks) {
    group.reset();
    group = std::make_unique<RankGroup>(ranks);
  }
  return *group;
}

void RankGroup::drop_cached() { cache().reset(); }

void with_bootstraps(int ranks, const std::function<void(std::unique_ptr<Bootstrap>, int)>& body) {
  auto bootstraps = make_thread_bootstraps(ranks);
  on_threads(ranks, [&](int rank) {
    auto& bootstrap = bootstraps[static_cast<std::size_t>(rank)];
    bootstrap->set_timeout(patience);
    body(std::move(bootstrap), rank);
  });
}

void run_ranks(int ranks, const std::function<void(Communicator&, int)>& body,
               const CommunicatorOptions& options) {
  with_bootstraps(ranks, [&](std::unique_ptr<Bootstrap> bootstrap, int rank) {
    Communicator comm = Communicator::create(std::move(bootstrap), test_options(options));
    backend_of(comm).enter();  // a new thread begins with device 0
    body(comm, rank);
  });
}

std::unique_ptr<Graph> captured(Communicator& comm, StreamRef stream,
                                const std::function<void()>& work) {
  const DeviceScope device(backend_of(comm));
  backend_of(comm).begin_capture(stream.native());
  work();
  return backend_of(comm).end_capture(stream.native());
}

}  // namespace plait::test
