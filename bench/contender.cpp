#include "bench/contender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/selection.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"
#include "symm_mem/window.hpp"

namespace plait::bench {
namespace {

/// Calls of a communicator.
class OfCommunicator : public Contender {
 public:
  OfCommunicator(Communicator& comm, std::string name, Memory memory, const Arena& arena,
                 const Options& options)
      : Contender(std::move(name), memory, arena), comm_(comm) {
    call_options_.blocks = options.blocks;
    call_options_.threads = options.threads;
  }
  void begin_group() override { group_start(); }
  void end_group() override { group_end(); }

 protected:
  Communicator& comm_;
  CallOptions call_options_;
};

class PlaitContender final : public OfCommunicator {
 public:
  PlaitContender(Communicator& comm, const std::string& algorithm, Memory memory,
                 const Arena& arena, const Options& options)
      : OfCommunicator(comm, algorithm, memory, arena, options) {
    if (algorithm != "default") call_options_.algorithm = algorithm;
  }

  bool may_serve(Collective collective) const override {
    return bench::may_serve(name(), collective);
  }

  void enqueue(const Task& task, NativeStream stream) override {
    call_options_.scale = task.call.scale;
    comm_.enqueue(task.call, task.send, task.recv, stream_ref(stream), call_options_);
  }

  std::string chosen(const Task& task) const override {
    const bool is_named =
        Registry::instance().find(call_options_.algorithm, task.call.collective) != nullptr;
    return is_named ? std::string() : comm_.chosen(task.call, call_options_);
  }
};

class CountedContender final : public OfCommunicator {
 public:
  CountedContender(Communicator& comm, const CountedCall& call, Memory memory, const Arena& arena,
                   const Options& options)
      : OfCommunicator(comm, std::string(call.name), memory, arena, options), counted_(call) {}

  bool may_serve(Collective collective) const override { return collective == counted_.even; }
  bool wants_uneven_blocks(Collective collective) const override {
    return may_serve(collective) && counted_.uneven;
  }

  void enqueue(const Task& task, NativeStream stream) override {
    const Call& call = task.call;
    const Collective even = counted_.even;
    if (call.collective != even || (even == Collective::all_to_all && task.in_place))
      throw Error(ErrorCode::unsupported, fmt::format("{} is {}{}", name(), plait::name_of(even),
                                                      task.in_place ? " out of place" : ""));
    call_options_.scale = call.scale;
    counts_.assign(static_cast<std::size_t>(task.ranks), call.count);
    displacements_.resize(counts_.size());
    for (std::size_t rank = 0; rank < displacements_.size(); ++rank)
      displacements_[rank] = rank * call.count;
    const Communicator::BlocksOf blocks{counts_, displacements_};
    const StreamRef on = stream_ref(stream);
    const void* const send = task.send;
    void* const recv = task.recv;
    switch (even) {
      case Collective::all_gather:
        return comm_.all_gather_v(send, call.count, recv, blocks, call.type, on, call_options_);
      case Collective::gather:
        return comm_.gather_v(send, call.count, recv, blocks, call.type, call.root, on,
                              call_options_);
      case Collective::scatter:
        return comm_.scatter_v(send, blocks, recv, call.count, call.type, call.root, on,
                               call_options_);
      case Collective::send_recv: {
        const std::array to{(task.rank + 1) % task.ranks};
        const std::array from{(task.rank + task.ranks - 1) % task.ranks};
        const std::array counts{call.count};
        const std::array<std::size_t, 1> begin{0};
        return comm_.neighbor_all_to_all_v(send, {to, counts, begin}, recv, {from, counts, begin},
                                           call.type, on, call_options_);
      }
      case Collective::reduce_scatter:
        return comm_.reduce_scatter_v(send, task.counts, recv, call.type, call.op, on,
                                      call_options_);
      default:
        return comm_.all_to_all_v(send, blocks, recv, blocks, call.type, on, call_options_);
    }
  }

 private:
  CountedCall counted_;
  std::vector<std::size_t> counts_, displacements_;
};

/// A put with its signal to the next rank, or a get from the previous one.
class OneSidedContender final : public OfCommunicator {
 public:
  using OfCommunicator::OfCommunicator;

  bool may_serve(Collective collective) const override {
    return collective == Collective::send_recv;
  }

  void enqueue(const Task& task, NativeStream stream) override {
    const bool puts = name() == one_sided_calls[0];
    const auto& window = puts ? arena().recv_window() : arena().send_window();
    if (window == nullptr)
      throw Error(ErrorCode::unsupported, fmt::format("{} needs a window", name()));
    const int next = (task.rank + 1) % task.ranks, last = (task.rank + task.ranks - 1) % task.ranks;
    // The peer's buffer lies where this rank's does.
    const auto offset = static_cast<std::size_t>(
        static_cast<const std::byte*>(puts ? task.recv : task.send) - window->local());
    const StreamRef on = stream_ref(stream);
    if (!puts) return comm_.get(window, last, offset, task.recv, task.call.bytes(), on);
    comm_.put(window, next, offset, task.send, task.call.bytes(), true, on);
    comm_.wait_signal(last, 1, on);
  }
};

class CutContender final : public Contender {
 public:
  CutContender(std::unique_ptr<Contender> whole, int messages, bool grouped)
      : Contender(fmt::format("{} x{}{}", whole->name(), messages, grouped ? " grouped" : ""),
                  whole->memory(), whole->arena()),
        whole_(std::move(whole)),
        messages_(static_cast<std::size_t>(messages)),
        grouped_(grouped) {}

  bool may_serve(Collective collective) const override { return whole_->may_serve(collective); }
  bool wants_uneven_blocks(Collective collective) const override {
    return whole_->wants_uneven_blocks(collective);
  }

  void enqueue(const Task& task, NativeStream stream) override {
    static_cast<void>(at(task, 0));  // throws before a group is begun
    if (grouped_) whole_->begin_group();
    try {
      for (std::size_t i = 0; i < messages_; ++i)
        if (const Task message = at(task, i); message.call.count != 0)
          whole_->enqueue(message, stream);
    } catch (...) {
      if (grouped_) whole_->end_group();  // safe: all ranks have made the same calls
      throw;
    }
    if (grouped_) whole_->end_group();
  }
  std::string chosen(const Task& task) const override {
    return grouped_ ? std::string() : whole_->chosen(at(task, 0));
  }

 private:
  Task at(const Task& task, std::size_t i) const {
    if (task.call.collective == Collective::barrier)
      throw Error(ErrorCode::unsupported, "a barrier is no message to cut or to group");
    if (messages_ > 1 && (task.call.parts != 1 || !task.counts.empty()))
      throw Error(ErrorCode::unsupported, fmt::format("the blocks of {} are not cut into messages",
                                                      plait::name_of(task.call.collective)));
    const std::size_t count = task.call.count, each = (count + messages_ - 1) / messages_,
                      begin = std::min(i * each, count);
    const std::size_t offset = begin * size_of(task.call.type);
    Task message = task;
    message.call.count = std::min(each, count - begin);
    if (task.send != nullptr) message.send = static_cast<const std::byte*>(task.send) + offset;
    if (task.recv != nullptr) message.recv = static_cast<std::byte*>(task.recv) + offset;
    return message;
  }

  std::unique_ptr<Contender> whole_;
  std::size_t messages_;
  bool grouped_;
};

}  // namespace

Task Contender::task_for(const Call& operation, std::size_t bytes, bool in_place, int rank,
                         int ranks, std::size_t offset) const {
  Task task = make_task(operation, bytes, in_place, memory_ != Memory::ordinary, arena_, rank,
                        ranks, offset);
  return wants_uneven_blocks(operation.collective) ? with_uneven_blocks(std::move(task)) : task;
}
void Contender::begin_group() {
  throw Error(ErrorCode::unsupported, fmt::format("{} has no groups", name()));
}

bool may_serve(const std::string& algorithm, Collective collective) {
  if (is_one_sided(algorithm)) return collective == Collective::send_recv;
  if (const CountedCall* const call = find_counted(algorithm)) return collective == call->even;
  if (Registry::instance().find(algorithm, collective) != nullptr) return true;
  const auto all = Registry::instance().all();
  return std::none_of(all.begin(), all.end(),  // "default" and policies serve every collective
                      [&](const auto& other) { return other->name() == algorithm; });
}

std::unique_ptr<Contender> cut(std::unique_ptr<Contender> contender, int messages, bool grouped) {
  return std::make_unique<CutContender>(std::move(contender), messages, grouped);
}

std::unique_ptr<Contender> make_plait(Communicator& comm, const std::string& algorithm,
                                      Memory memory, const Arena& arena, const Options& options) {
  if (const CountedCall* const call = find_counted(algorithm))
    return std::make_unique<CountedContender>(comm, *call, memory, arena, options);
  if (is_one_sided(algorithm))
    return std::make_unique<OneSidedContender>(comm, algorithm, memory, arena, options);
  return std::make_unique<PlaitContender>(comm, algorithm, memory, arena, options);
}

}  // namespace plait::bench
