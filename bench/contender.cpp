#include "bench/contender.hpp"

#include <utility>

#include "core/algorithm.hpp"

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

}  // namespace

std::unique_ptr<Contender> make_plait(Communicator& comm, const std::string& algorithm, Memory memory, const Arena& arena,
                                      const Options& options) {
  return std::make_unique<PlaitContender>(comm, algorithm, memory, arena, options);
}

}  // namespace plait::bench
