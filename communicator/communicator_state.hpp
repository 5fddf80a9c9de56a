// The inside of a communicator, and the way of a call through its parts.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/call_bootstrap.hpp"
#include "bootstrap/nodes.hpp"
#include "communicator/algorithm_memory.hpp"
#include "communicator/call_launcher.hpp"
#include "communicator/call_preparer.hpp"
#include "communicator/call_publisher.hpp"
#include "communicator/fault/board.hpp"
#include "communicator/fault/monitor.hpp"
#include "communicator/fault/watchdog.hpp"
#include "communicator/groups/birth.hpp"
#include "communicator/groups/group_member.hpp"
#include "communicator/groups/group_plan.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "communicator/host_reducer.hpp"
#include "communicator/known_calls.hpp"
#include "communicator/nodes/other_nodes.hpp"
#include "communicator/observe/progress.hpp"
#include "communicator/observe/trace.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/setup.hpp"
#include "core/backoff.hpp"
#include "core/in_use.hpp"
#include "core/process.hpp"
#include "plait/communicator.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// The pace of a wait for one of several streams: no runtime has such a wait.
inline constexpr Backoff::Pace stream_pace{.spins = 100, .sleep = std::chrono::microseconds(50)};

/// Such as "the part of ranks 2, 0 (its ranks 0, 1)". None if the part numbers its ranks as its
/// parent does.
std::optional<std::string> name_part(const std::vector<int>& parent_ranks);

/// What all ranks pass alike to a call that consists of messages, beside its type and options.
struct CallByAll {
  std::optional<int> root{};
};

/// A collective call that is a part of another.
struct CallPart {
  Call call;
  const void* send;
  void* recv;
};

class OpenGroup;

/// Everything that a communicator owns. Members are destroyed in reverse order: memory before its
/// device, the device before the bootstrap.
class CommunicatorState final : public GroupMember {
 public:
  /// `parent`: the communicator that this one is a part of, or null. A part has its parent's
  /// device, settings and trace file.
  CommunicatorState(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options,
                    const CommunicatorState* parent = nullptr,
                    HostDevices host = HostDevices::one_per_rank);
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  /// Enqueues the call, or adds it to this thread's group.
  void call(const Call& call, const void* send, void* recv, StreamRef stream,
            const CallOptions& options);
  /// Adds calls that the user has made as one to this thread's group.
  void add_parts(std::span<const CallPart> parts, StreamRef stream, const CallOptions& options);
  /// Enqueues calls that the user has made as one, all of them or none. Only outside a group, and
  /// without PLAIT_CHECK=1. `what`: the call, as the user wrote it.
  void calls(std::string_view what, std::span<const CallPart> parts, StreamRef stream,
             const CallOptions& options);
  /// Enqueues the ends of messages, all of them or none, or adds them to the group. `what`: the
  /// call, as the user wrote it. `by_all`: for a call in which all ranks take part, which
  /// PLAIT_CHECK=1 compares.
  void messages(std::string_view what, DataType type, std::span<const MessageEnd> ends,
                StreamRef stream, const CallOptions& options, const CallByAll* by_all = nullptr);
  /// Enqueues a reduction by a function of the program. `elements`: bytes of the typed buffers'
  /// elements; 0: they have no type.
  void reduce_on_host(const HostReduction& reduction, std::size_t elements, StreamRef stream);
  /// Runs the function when the stream comes to it, before the calls that follow on any stream.
  /// Only for the host target, and directly after a call on the same stream or before one. The
  /// function is left out if the communicator is broken by then.
  template <class Function>
  void run_between_calls(StreamRef stream, Function function);
  /// Refuses a call: throws the error, or lets the group throw it at its end. `parts`: what the
  /// other ranks count on. `together`: with PLAIT_CHECK=1 they throw it, too.
  void refuse(const Error& error, const RefusedParts& parts, bool together = false);
  /// What the peers of these messages count on.
  static RefusedParts refused_parts_of(std::span<const MessageEnd> ends);
  /// Throws if a blocking call on the stream would wait for work that can't begin yet.
  void check_may_block(std::string_view what, NativeStream stream) const {
    preparer_.check_may_block(what, stream);
  }
  void copy(void* to, const void* from, std::size_t bytes, StreamRef stream);
  void reserve();
  void synchronize(StreamRef stream);
  bool test(StreamRef stream);
  std::size_t wait_any(std::span<const StreamRef> streams);
  Statistics statistics() const;

  std::optional<PreparedCall> prepare(const Call& call, const void* send, void* recv,
                                      NativeStream stream, const CallOptions& options) override;
  std::vector<PreparedCall> prepare_messages(std::string_view what, DataType type,
                                             std::span<const MessageEnd> ends, NativeStream stream,
                                             const CallOptions& options) override;
  bool prepares_together() const override { return settings.check_calls; }
  void submit(const PreparedCall& call, NativeStream stream) override;
  void publish_refused(const RefusedParts& parts, const std::exception& why) override;
  bool is_capturing(NativeStream stream) override;
  GroupPlan plan(std::vector<GroupedCall>&& calls) override;
  void submit(GroupPlan& plan) override;
  bool grows(const GroupPlan& plan) const override;
  void publish(GroupPlan& plan) override;
  void grow(const GroupPlan& plan) override;
  NativeStream resolve(NativeStream stream) const override { return backend->resolve(stream); }
  const void* queue(NativeStream stream) const override { return backend->queue(stream); }
  int rank() const override { return bootstrap->rank(); }
  const Birth& birth() const override { return birth_; }
  std::string places(const PreparedCall& call) const override;
  /// ", on node n1 of 2 nodes, by sockets over eth0 (10.0.0.2)"; empty on one node.
  std::string describe_nodes() const;
  InUse& in_use() override { return in_use_; }

  /// How many calls were enqueued as equal ones were before them.
  std::uint64_t repeated_calls() const noexcept { return known_.answered(); }

  /// As Watchdog::await_error, which may sleep. Notes that the program has been told.
  std::optional<Error> tell_error() const {
    auto broken = watchdog_->await_error();
    if (broken) watchdog_->tell();
    return broken;
  }
  /// Breaks the communicator if the ranks' calls differ.
  void compare() const { watchdog_->compare(); }
  /// Only for the thread that uses the communicator, because it also gives up the bootstrap.
  void throw_if_broken() const {
    if (watchdog_->is_broken()) throw_broken();
    if (other_nodes_ != nullptr) other_nodes_->channels().require_open();
  }
  void abort(std::string_view reason) override;
  bool was_told() const override { return watchdog_->was_told(); }
  void tell() override { watchdog_->tell(); }
  Progress read_progress() const { return log_ ? log_->read() : Progress{}; }
  std::shared_ptr<TraceFile> trace_file() const { return trace_ ? trace_->file() : nullptr; }
  /// For a communicator that measures: PLAIT_LOG=select has no lines about it.
  void say_no_choices() { preparer_.say_no_choices(); }
  void adopt(const CommunicatorState& child) { watchdog_->add_child(child.watchdog_); }

  const Origin origin{};
  std::unique_ptr<Bootstrap> bootstrap;

 private:
  std::optional<BootstrapHooks::Purpose> creating_;  // during construction

 public:
  CommunicatorOptions made_with;
  CommunicatorSettings settings;
  Nodes nodes;
  std::shared_ptr<Backend> backend;
  CommunicatorOnDevice counted;
  SymmetricHeap heap;  // of this node's ranks

 private:
  Selector make_selector(const Topology& topology) const;
  static std::unique_ptr<Bootstrap> interruptible(std::unique_ptr<Bootstrap> bootstrap,
                                                  const CommunicatorState* parent);
  void look_and_throw() const;
  void throw_broken() const;
  void abandon(const Error& error) const;
  void enqueue(const Call& call, const void* send, void* recv, StreamRef stream,
               const CallOptions& options);
  template <class Refused>
  void enqueue_messages(std::string_view what, DataType type, std::span<const MessageEnd> ends,
                        StreamRef stream, const CallOptions& options, Refused refused);
  void check_among_themselves(const std::vector<GroupedCall>& calls, std::string_view what) const;
  template <class Compare>
  void agree_on_call(const std::optional<Error>& refusal, Compare compare) const;
  void look_at(PreparedCall& prepared, const Call& call, const void* send, void* recv,
               NativeStream stream, const CallOptions& options) const;
  bool choose(PreparedCall& prepared, const CallOptions& options);
  void add_to(OpenGroup& group, const CallPart& part, NativeStream stream,
              const CallOptions& options);
  bool prepare_in(PreparedCall& prepared, const Call& call, const void* send, void* recv,
                  NativeStream stream, const CallOptions& options);
  bool prepare_end(PreparedCall& prepared, std::string_view what, DataType type,
                   const MessageEnd& end, const CallOptions& options);
  void check_ends(std::string_view what, DataType type, std::span<const MessageEnd> ends,
                  NativeStream stream, const CallOptions& options) const;
  void check_not_grouped(std::string_view what, std::string_view consequence) const;
  void plan_steps(GroupPlan& plan);
  /// The plan of a call outside a group, kept so that the next one need not allocate.
  struct KeptPlan {
    GroupPlan plan;
    bool is_taken = false;
  };
  class PlanOfOneCall;
  KnownCalls::Found find_known(const Request& request);
  bool knows(std::span<const CallPart> parts, const CallOptions& options) const;
  void submit(GroupPlan& plan, KnownCall* empty, const Request& request);
  template <class Refused>
  void enqueue_again(const KnownCall& known, std::string_view what, NativeStream stream,
                     const CallOptions& options, Refused refused);
  void keep(KnownCall& known, const Request& request, const GroupPlan& plan) const noexcept;
  template <class Parts, class Body>
  auto or_refuse(Parts parts, Body body);
  void check_refusals() const;
  template <class Body>
  void must_enqueue(Body body);
  std::optional<Error> lost_rank_behind(const Error& failure) const;
  template <class Body>
  auto waiting(Body body) const;
  NativeStream check_waited(std::string_view what, StreamRef stream);
  bool has_ended(NativeStream stream);
  void make_room(const GroupPlan& plan);
  void announce_end() noexcept;
  void finish() noexcept;
  void warn_of_left_over() const;
  void start_log(std::shared_ptr<TraceFile> trace);
  /// For the group of all ranks and, if there are several nodes, that of this node.
  template <class Body>
  void for_each_group(Body body) {
    body(*bootstrap);
    if (nodes.are_several()) body(nodes.group_here());
  }

  AlgorithmList algorithms_;
  Birth birth_;

 public:
  Selector selector;

 private:
  std::shared_ptr<Board> board_;
  CallBootstrap in_calls_;
  CallPreparer preparer_;
  CallPublisher publisher_;
  std::unique_ptr<AlgorithmMemory> memory_;
  std::shared_ptr<BlockLog> log_;  // null: PLAIT_PROGRESS=0
  std::unique_ptr<Trace> trace_;   // null: no PLAIT_TRACE
  std::shared_ptr<Watchdog> watchdog_;
  std::unique_ptr<OtherNodes> other_nodes_;  // null on one node
  std::optional<CallLauncher> launcher_;
  HostReducer host_reducer_;
  InUse in_use_;
  KeptPlan of_call_, of_messages_;
  KnownCalls known_;
  std::uint64_t groups_ = 0;
  std::optional<Monitored> monitored_;
};

template <class Function>
void CommunicatorState::run_between_calls(StreamRef stream, Function function) {
  const NativeStream resolved = backend->resolve(stream.native());
  launcher_->order().enter(resolved);
  backend->host_call(resolved, [watchdog = watchdog_.get(), function = std::move(function)] {
    if (!watchdog->is_broken()) function();
  });
  launcher_->order().leave(resolved);
}

}  // namespace plait
