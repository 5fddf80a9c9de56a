#include "bench/contender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/algorithm.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"

namespace plait::bench {
namespace {

class PlaitContender final : public Contender {
 public:
  PlaitContender(Communicator& comm, const std::string& algorithm, Memory memory, const Arena& arena, const Options& options)
      : Contender(algorithm, memory, arena), comm_(comm) {
    if (algorithm != "default") call_options_.algorithm = algorithm;
    call_options_.blocks = options.blocks;
    call_options_.threads = options.threads;
  }

  void enqueue(const Task& task, NativeStream stream) override {
    call_options_.scale = task.scale;
    comm_.all_reduce(task.send, task.recv, task.count, task.type, task.op, stream_ref(stream), call_options_);
  }

  void begin_group() override { group_start(); }
  void end_group() override { group_end(); }

  std::string chosen(const Task& task) const override {
    if (Registry::instance().find(call_options_.algorithm) != nullptr) return {};
    Call call;
    call.type = task.type;
    call.op = task.op;
    call.count = task.count;
    call.symmetric = memory() == Memory::symmetric;
    call.in_place = call.symmetric && task.in_place();
    call.scale = task.scale;
    return comm_.chosen(call, call_options_);
  }

 private:
  Communicator& comm_;
  CallOptions call_options_;
};

class CutContender final : public Contender {
 public:
  CutContender(std::unique_ptr<Contender> whole, int messages, bool grouped)
      : Contender(fmt::format("{} x{}{}", whole->name(), messages, grouped ? " grouped" : ""), whole->memory(), whole->arena()),
        whole_(std::move(whole)),
        messages_(static_cast<std::size_t>(messages)),
        grouped_(grouped) {}

  void enqueue(const Task& task, NativeStream stream) override {
    if (grouped_) whole_->begin_group();
    for (std::size_t i = 0; i < messages_; ++i)
      if (const Task message = at(task, i); message.count != 0) whole_->enqueue(message, stream);
    if (grouped_) whole_->end_group();
  }
  std::string chosen(const Task& task) const override { return grouped_ ? std::string() : whole_->chosen(at(task, 0)); }

 private:
  Task at(const Task& task, std::size_t i) const {
    const std::size_t each = (task.count + messages_ - 1) / messages_, begin = std::min(i * each, task.count);
    Task message = task;
    message.count = std::min(each, task.count - begin);
    message.send = static_cast<const std::byte*>(task.send) + begin * size_of(task.type);
    message.recv = static_cast<std::byte*>(task.recv) + begin * size_of(task.type);
    return message;
  }

  std::unique_ptr<Contender> whole_;
  std::size_t messages_;
  bool grouped_;
};

}  // namespace

void Contender::begin_group() { throw Error(ErrorCode::unsupported, fmt::format("{} has no groups", name())); }

std::unique_ptr<Contender> cut(std::unique_ptr<Contender> contender, int messages, bool grouped) {
  return std::make_unique<CutContender>(std::move(contender), messages, grouped);
}

std::unique_ptr<Contender> make_plait(Communicator& comm, const std::string& algorithm, Memory memory, const Arena& arena,
                                      const Options& options) {
  return std::make_unique<PlaitContender>(comm, algorithm, memory, arena, options);
}

}  // namespace plait::bench
