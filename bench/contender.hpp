// The contenders of a measurement: Plait's algorithms and their peers behind one interface, so the
// same code times and checks all of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "bench/memory.hpp"
#include "bench/options.hpp"
#include "bench/task.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

class Contender {
 public:
  Contender(std::string name, Memory memory, const Arena& arena)
      : name_(std::move(name)), memory_(memory), arena_(arena) {}
  virtual ~Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  const std::string& name() const noexcept { return name_; }  // the name in the results
  Memory memory() const noexcept { return memory_; }
  const Arena& arena() const noexcept { return arena_; }
  bool is_peer() const { return name_.starts_with("peer:"); }

  /// False if no call of this collective can be served. If true, some calls may still be refused.
  virtual bool may_serve(Collective) const { return true; }
  /// Whether its tasks of this collective are those of `with_uneven_blocks`.
  virtual bool wants_uneven_blocks(Collective) const { return false; }
  /// Its task of this call, as `make_task` says, in its memory.
  Task task_for(const Call& operation, std::size_t bytes, bool in_place, int rank, int ranks,
                std::size_t offset = 0) const;
  /// Enqueues one call. If the contender can't serve the call, throws Error(unsupported) on all
  /// ranks, before anything is enqueued.
  virtual void enqueue(const Task& task, NativeStream stream) = 0;
  /// The algorithm that serves the call, if the contender chooses one; otherwise empty.
  virtual std::string chosen(const Task&) const { return {}; }
  /// begin_group and end_group enclose calls that are enqueued together. Throws Error(unsupported)
  /// if the contender has no groups.
  virtual void begin_group();
  virtual void end_group() {}

 private:
  std::string name_;
  Memory memory_;
  const Arena& arena_;
};

/// `contender` with its message cut into `messages` messages of equal length, one call per message.
/// The name becomes "NAME x64", or "NAME x64 grouped" if the calls are one group.
std::unique_ptr<Contender> cut(std::unique_ptr<Contender> contender, int messages, bool grouped);

/// `algorithm` is as for `make_plait`. False if it is of other collectives.
bool may_serve(const std::string& algorithm, Collective collective);

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// `algorithm` is a name of the registry, "default" for the algorithm that the selection takes, or
/// one of `counted_calls` and `one_sided_calls`.
std::unique_ptr<Contender> make_plait(Communicator& comm, const std::string& algorithm,
                                      Memory memory, const Arena& arena, const Options& options);

}  // namespace plait::bench
