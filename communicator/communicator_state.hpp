// The inside of a communicator: from a call's arguments to launches.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/contract/event_queue.hpp"
#include "algorithms/contract/side_stream.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/call_bootstrap.hpp"
#include "communicator/algorithm_memory.hpp"
#include "communicator/fault/board.hpp"
#include "communicator/fault/monitor.hpp"
#include "communicator/fault/watchdog.hpp"
#include "communicator/groups/group_member.hpp"
#include "communicator/groups/group_plan.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "communicator/observe/progress.hpp"
#include "communicator/observe/trace.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/setup.hpp"
#include "communicator/stream_order.hpp"
#include "core/in_use.hpp"
#include "core/process.hpp"
#include "plait/communicator.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Everything a communicator owns. Members are destroyed in reverse: memory before the device it
/// lies on, that before the bootstrap.
class CommunicatorState final : public GroupMember {
 public:
  /// `parent`: the communicator that this one is a part of, if it is one: it has the same device,
  /// settings and trace file.
  CommunicatorState(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options,
                    const CommunicatorState* parent = nullptr,
                    HostDevices host = HostDevices::one_per_rank);
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  /// Enqueues the call, or adds it to this thread's group.
  void call(const Call& call, const void* send, void* recv, StreamRef stream,
            const CallOptions& options);
  /// The same for messages, all of them or none. `what`: the call, as the user wrote it.
  void messages(std::string_view what, DataType type, std::span<const MessageEnd> ends,
                StreamRef stream, const CallOptions& options);
  /// Throws, or lets the group throw at its end. `collective`: so do the other ranks, with
  /// PLAIT_CHECK=1.
  void refuse(const Error& error, bool collective = false);
  void copy(void* to, const void* from, std::size_t bytes, StreamRef stream);
  void reserve();
  void synchronize(StreamRef stream);
  Statistics statistics() const;

  std::optional<PreparedCall> prepare(const Call& call, const void* send, void* recv,
                                      NativeStream stream, const CallOptions& options) override;
  bool prepares_together() const override { return settings.check_calls; }
  void enqueue(const PreparedCall& call, NativeStream stream) override;
  bool is_capturing(NativeStream stream) override;
  GroupPlan plan(std::vector<GroupedCall> calls) override;
  void enqueue(GroupPlan& plan) override;
  bool grows(const GroupPlan& plan) const override;
  void publish(GroupPlan& plan) override;
  void grow(const GroupPlan& plan) override;
  NativeStream resolve(NativeStream stream) const override { return backend->resolve(stream); }
  const void* queue(NativeStream stream) const override { return backend->queue(stream); }
  int rank() const override { return bootstrap->rank(); }
  const void* communicator() const override { return board_->shared(); }
  std::string places(const PreparedCall& call) const override;
  InUse& in_use() override { return in_use_; }

  /// As Watchdog::await_error, which may sleep; notes that the program has been told.
  std::optional<Error> tell_error() const {
    auto broken = watchdog_->await_error();
    if (broken) watchdog_->tell();
    return broken;
  }
  /// Looks also whether the ranks' calls agree.
  void compare() const { watchdog_->compare(); }
  /// By the thread that uses the communicator.
  void throw_if_broken() const {
    if (watchdog_->is_broken()) throw_broken();
  }
  void abort(std::string_view reason) override;
  bool was_told() const override { return watchdog_->was_told(); }
  void tell() override { watchdog_->tell(); }
  Progress read_progress() const { return log_ ? log_->read() : Progress{}; }
  std::shared_ptr<TraceFile> trace_file() const { return trace_ ? trace_->file() : nullptr; }
  void adopt(const CommunicatorState& child) { watchdog_->add_child(child.watchdog_); }

  const Origin origin{};
  std::unique_ptr<Bootstrap> bootstrap;

 private:
  std::optional<BootstrapHooks::Purpose> creating_;  // during construction

 public:
  CommunicatorOptions made_with;
  CommunicatorSettings settings;
  std::shared_ptr<Backend> backend;
  CommunicatorOnDevice counted;
  SymmetricHeap heap;

 private:
  static std::vector<const Algorithm*> registered();
  /// What ends the bootstrap's calls: those of a communicator that is being made out of `parent` by
  /// what breaks that.
  Selector make_selector(const Topology& topology) const;
  static std::unique_ptr<Bootstrap> interruptible(std::unique_ptr<Bootstrap> bootstrap,
                                                  const CommunicatorState* parent);
  void look_and_throw() const;
  void throw_broken() const;
  void abandon(const Error& error) const;
  static std::vector<std::string> names(const std::vector<const Algorithm*>& algorithms);
  std::shared_ptr<Window> find(std::string_view what, const char* buffer, const void* pointer,
                               std::size_t bytes) const;
  void locate(PreparedCall& prepared) const;
  /// What is worth to be remembered of a call without options.
  struct CachedChoice {
    Choice choice;
    bool shares;
    const Algorithm* in_batch;  // for calls that are as long together
  };
  const CachedChoice& known(const Call& call);
  bool prepare(PreparedCall& prepared, std::string_view what, DataType type, const MessageEnd& end,
               const CallOptions& options);
  void locate_receiver(PreparedCall& prepared, void* receiver) const;
  void choose(PreparedCall& prepared, const CallOptions& options);
  void check_live(std::string_view what, NativeStream stream) const;
  void check_stream(std::string_view what, NativeStream stream) const;
  void check_not_grouped(std::string_view what, std::string_view consequence) const;
  std::size_t number_of(const Algorithm& algorithm) const;
  void plan_steps(std::span<const GroupedCall> calls, std::vector<GroupStep>& steps);
  void issue(GroupPlan& plan);
  template <class Body>
  void must_enqueue(Body body);
  void launch(const PreparedCall& prepared, std::size_t number, NativeStream stream);
  void launch(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps);
  const AlgorithmGrant& memory_of(std::size_t number, unsigned blocks);
  unsigned blocks_of(const GroupStep& step, const std::vector<GroupedCall>& calls) const;
  void publish(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps);
  void make_room(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps);
  Watch watch(std::uint64_t call, std::size_t algorithm) const;
  void finish() noexcept;
  void warn_of_left_over() const;
  void start_log(std::shared_ptr<TraceFile> trace);
  void trace(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps,
             bool captured);

  std::vector<const Algorithm*> algorithms_ =
      registered();  // one that is registered later serves later communicators

 public:
  Selector selector;

 private:
  std::shared_ptr<Board> board_;
  CallBootstrap in_calls_;
  std::unique_ptr<AlgorithmMemory> memory_;
  std::unique_ptr<BlockLog> log_;  // null: PLAIT_PROGRESS=0
  std::unique_ptr<Trace> trace_;   // null: no PLAIT_TRACE
  std::shared_ptr<Watchdog> watchdog_;
  StreamOrder order_;
  std::unique_ptr<SideStreams> sides_;
  EventQueue events_;
  std::unique_ptr<WorkMemory> work_;
  KernelCache kernels_;
  std::unique_ptr<Event> joined_;  // of the streams of a group
  Statistics statistics_;
  InUse in_use_;
  std::uint64_t collectives_ = 0, messages_ = 0;  // of the calls
  bool captures_ = false;                         // messages may be in graphs
  GroupPlan plan_;  // of a call of several messages: kept for its memory
  std::vector<BatchedCall> batch_;
  std::vector<Signature> signatures_;   // of a group's calls
  std::vector<std::uint64_t> numbers_;  // and theirs
  std::optional<Monitored> monitored_;

  struct CallHash {
    std::size_t operator()(const Call& call) const noexcept {
      const auto facts = (static_cast<std::size_t>(call.collective) << 16) |
                         (static_cast<std::size_t>(call.type) << 8) |
                         (static_cast<std::size_t>(call.op) << 2) |
                         (std::size_t{call.in_place} << 1) | std::size_t{call.symmetric};
      return (call.count * 0x9e3779b97f4a7c15u) ^ facts ^
             (static_cast<std::size_t>(call.root) << 32);
    }
  };
  std::unordered_map<Call, CachedChoice, CallHash> known_;
  const std::pair<const Call, CachedChoice>* last_known_ =
      nullptr;  // of the last call: the next one is often the same
  /// The last choice for a call with an algorithm's name or a shape: parsing takes longer than a
  /// small call.
  struct Wished {
    Call call;
    std::string name;
    unsigned blocks, threads;
    Choice choice;
  };
  std::optional<Wished> last_wished_;
  mutable std::size_t last_number_ = 0;  // the same of `number_of`
};

}  // namespace plait
