#include "support/aged.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "communicator/resources/algorithm_memory.hpp"
#include "support/device_array.hpp"
#include "support/forwarding_algorithm.hpp"

namespace plait::test {
namespace {

/// The memory that a rank's call was granted, for the thread that asked for it.
thread_local Grant seen, seen_shared;
thread_local bool only_look = false;

/// Another algorithm's twin with memory of its own. Also a user's algorithm, registered by its
/// application.
class Aged final : public ForwardingAlgorithm {
 public:
  explicit Aged(const Algorithm& of)
      : ForwardingAlgorithm(fmt::format("aged_{}", of.name()), std::string(of.name()),
                            of.collective()),
        family_(fmt::format("aged_{}", of.family())) {}
  StaticName family() const override { return StaticName::lasting(family_); }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    look(context);
    if (!only_look) ForwardingAlgorithm::enqueue(call, buffers, shape, context);
  }
  /// The two ends of a message that goes round.
  void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const override {
    look(context);
    std::vector<BatchedCall> originals(calls.begin(), calls.end());
    for (BatchedCall& call : originals) call.algorithm = &original();
    if (!only_look) original().enqueue_batch(originals, context);
  }

 private:
  void look(const LaunchContext& context) const {
    seen = context.grant();
    const bool shares = !original().shared(context.topology()).name.empty();
    seen_shared = shares ? context.shared() : Grant{};
  }

  std::string family_;
};

}  // namespace

std::vector<Subject> aged() {
  static const std::vector<Subject> subjects = [] {
    std::vector<Subject> originals = all_reduces();
    for (const Subject& subject : other_algorithms())
      if ((subject.collective == Collective::reduce && subject.algorithm != "pull") ||
          subject.collective == Collective::send_recv ||
          (subject.collective == Collective::broadcast && subject.algorithm == "direct_put"))
        originals.push_back(subject);
    for (const Subject& subject : originals)
      Registry::instance().add(std::make_unique<Aged>(
          *Registry::instance().find(subject.algorithm, subject.collective)));
    return originals;
  }();
  return subjects;
}

void make_old(Communicator& comm, const Subject& twin, std::uint32_t age,
              std::size_t scratch_bytes) {
  comm.bootstrap().barrier();  // no peer's earlier kernel still writes a signal here
  const Buffer<float> buffer = comm.allocate<float>(128);
  only_look = true;
  comm.enqueue({.collective = twin.collective, .type = DataType::f32, .count = 1}, buffer.data(),
               buffer.data() + 64, {}, {.algorithm = twin.algorithm});
  only_look = false;
  Topology topology{backend_of(comm).info().facts};
  topology.backend = comm.backend_kind();
  topology.ranks = comm.size();
  std::vector<const Algorithm*> all;
  for (const auto& each : Registry::instance().all()) all.push_back(each.get());
  topology.scratch_limit = scratch_within(scratch_bytes, topology, all);
  const Algorithm& algorithm = *Registry::instance().find(twin.algorithm, twin.collective);
  const Resources own = algorithm.resources(topology),
                  shared = algorithm.shared(topology).resources;
  Backend& backend = backend_of(comm);
  const std::size_t words = std::max({own.counters, own.signals, shared.counters, shared.signals});
  auto* old =
      static_cast<std::uint32_t*>(backend.allocate_pinned(words * sizeof(std::uint32_t) + 1));
  std::fill_n(old, words, age);
  const auto set = [&](const Resources& resources, const Grant& grant) {
    if (resources.signals != 0)
      backend.copy(grant.signals.own, old, resources.signals * sizeof(std::uint32_t), nullptr);
    backend.synchronize(nullptr);
    // Beside its epoch, a LanesState has a word that says that nothing is on its way.
    if (algorithm.shared(topology).name.starts_with("lanes of"))
      for (std::size_t i = 1; i < resources.counters; i += 2) old[i] = 0;
    if (resources.counters != 0)
      backend.copy(grant.counters, old, resources.counters * sizeof(std::uint32_t), nullptr);
  };
  set(own, seen);
  set(shared, seen_shared);
  backend.synchronize(nullptr);
  comm.bootstrap().barrier();
  backend.deallocate_pinned(old);
}

}  // namespace plait::test
