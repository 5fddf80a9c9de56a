// Who is measured: Plait's algorithms and their peers, all behind one interface, so that one piece
// of code times and checks them.
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

  const std::string& name() const noexcept { return name_; }  // as in the results
  Memory memory() const noexcept { return memory_; }
  const Arena& arena() const noexcept { return arena_; }
  bool is_peer() const { return name_.starts_with("peer:"); }

  /// Enqueues one call. Throws Error(unsupported), on all ranks and before anything is enqueued, if
  /// it is not for this one.
  virtual void enqueue(const Task& task, NativeStream stream) = 0;
  /// The algorithm that serves the call, where that is a choice; else empty.
  virtual std::string chosen(const Task&) const { return {}; }
  /// Around calls that are to be enqueued together. Throws Error(unsupported) where there is no
  /// such thing.
  virtual void begin_group();
  virtual void end_group() {}

 private:
  std::string name_;
  Memory memory_;
  const Arena& arena_;
};

/// `contender` with its message cut into `messages` of equal length, a call for each: named "NAME
/// x64", or "NAME x64 grouped" if the calls are one group.
std::unique_ptr<Contender> cut(std::unique_ptr<Contender> contender, int messages, bool grouped);

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// `algorithm` is a name of the registry, "default" for what the selection takes, or
/// "all_to_all_v".
std::unique_ptr<Contender> make_plait(Communicator& comm, const std::string& algorithm,
                                      Memory memory, const Arena& arena, const Options& options);

}  // namespace plait::bench
