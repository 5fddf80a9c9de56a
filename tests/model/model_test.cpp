// All executions of the kernels that ship, for a few ranks, blocks, threads and calls.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdio>

#include "model/recorder.hpp"
#include "support/by_name.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait {
template <>
KernelTable<model::ModelKernel>& KernelTable<model::ModelKernel>::instance() {
  static KernelTable table;
  return table;
}
}  // namespace plait

namespace plait::test {
namespace {

const BackendRegistration registration = stand_in_for_cuda<Recorder>();

enum class Where { symmetric, in_place, ordinary };

struct Scenario {
  Subject subject;
  int ranks;
  LaunchShape shape;
  std::size_t count;  // of a block
  Where where = Where::symmetric;
  int calls = 3;
};

/// Element i of a rank's input in a call.
float input(int rank, int call, std::size_t i) {
  return static_cast<float>((rank * 31 + call * 17 + static_cast<int>(i) * 3) % 61);
}

/// What a call gives a rank.
struct Expected {
  Collective collective;
  int ranks;
  std::size_t count;
  static constexpr int root = 0;

  std::size_t sent() const { return count * (many_sent() ? static_cast<unsigned>(ranks) : 1); }
  std::size_t received() const {
    return count * (many_received() ? static_cast<unsigned>(ranks) : 1);
  }
  bool many_sent() const {
    return collective == Collective::reduce_scatter || collective == Collective::all_to_all ||
           collective == Collective::scatter;
  }
  bool many_received() const {
    return collective == Collective::all_gather || collective == Collective::all_to_all ||
           collective == Collective::gather;
  }
  bool receives(int rank) const {
    return rank == root || (collective != Collective::reduce && collective != Collective::gather);
  }
  float sum(int first, int end, int call, std::size_t i) const {
    float all = 0;
    for (int peer = first; peer < end; ++peer) all += input(peer, call, i);
    return all;
  }
  float value(int rank, int call, std::size_t i) const {
    const auto mine = static_cast<std::size_t>(rank) * count;
    const auto from = static_cast<int>(i / count);
    switch (collective) {
      case Collective::all_gather:
      case Collective::gather:
        return input(from, call, i % count);
      case Collective::all_to_all:
        return input(from, call, mine + i % count);
      case Collective::reduce_scatter:
        return sum(0, ranks, call, mine + i);
      case Collective::scatter:
        return input(root, call, mine + i);
      case Collective::broadcast:
        return input(root, call, i);
      case Collective::scan:
        return sum(0, rank + 1, call, i);
      case Collective::exscan:
        return sum(0, rank, call, i);
      default:
        return sum(0, ranks, call, i);
    }
  }
};

/// The buffers of a rank, and what the program does with them between calls: it looks at each
/// element of the result, and stores the next input.
class Rank {
 public:
  Rank(Communicator& comm, const Scenario& s)
      : s_(s), expected_{s.subject.collective, s.ranks, s.count}, rank_(comm.rank()) {
    const std::size_t bytes = (expected_.sent() + expected_.received()) * sizeof(float) + 1024;
    if (s.where == Where::ordinary) {
      memory_ = static_cast<float*>(std::aligned_alloc(128, (bytes + 127) / 128 * 128));
      std::fill_n(memory_, bytes / sizeof(float), 0.0f);
      Recording::instance().add_memory(memory_, bytes, "memory of rank " + std::to_string(rank_));
    } else {
      buffer_ = comm.allocate<float>(bytes / sizeof(float));
      memory_ = buffer_.data();
    }
    send_ = memory_;
    recv_ = memory_ + (expected_.sent() + 63) / 64 * 64;
    if (s.where == Where::in_place) {
      const auto mine = static_cast<std::size_t>(rank_) * s.count;
      if (expected_.many_received() && !expected_.many_sent()) {
        recv_ = memory_;
        send_ = memory_ + mine;
      } else {
        recv_ = expected_.many_sent() && !expected_.many_received() ? memory_ + mine : memory_;
      }
    }
  }
  ~Rank() {
    if (s_.where != Where::ordinary) return;
    Recording::instance().remove_memory(memory_);
    std::free(memory_);
  }

  void record(Communicator& comm) {
    Recording& recording = Recording::instance();
    for (int call = 0; call < s_.calls; ++call) {
      recording.add(rank_, {{1, 1}, [this, call](model::KernelWords& words) { use(words, call); }});
      Call what{.collective = s_.subject.collective, .type = DataType::f32, .count = s_.count};
      enqueue_by_name(comm, what, send_, recv_, StreamRef(),
                      {.algorithm = s_.subject.algorithm,
                       .blocks = s_.shape.blocks,
                       .threads = s_.shape.threads});
    }
    recording.add(rank_, {{1, 1}, [this](model::KernelWords& words) { use(words, s_.calls); }});
  }

 private:
  void use(model::KernelWords& words, int call) {
    model::Explorer& explorer = words.explorer();
    if (call > 0 && expected_.receives(rank_))
      for (std::size_t i = 0; i < expected_.received(); ++i) {
        explorer.plain(words.its_thread(), recv_ + i, sizeof(float), false);
        const float wanted = expected_.value(rank_, call - 1, i);
        if (recv_[i] != wanted && !(expected_.collective == Collective::exscan && rank_ == 0))
          explorer.fail(words.its_thread(), "call " + std::to_string(call - 1) + ": element " +
                                                std::to_string(i) + " is " +
                                                std::to_string(recv_[i]) + " instead of " +
                                                std::to_string(wanted));
      }
    if (call == s_.calls) return;
    for (std::size_t i = 0; i < expected_.sent(); ++i) {
      explorer.plain(words.its_thread(), send_ + i, sizeof(float), true);
      send_[i] = input(rank_, call, i);
    }
  }

  Scenario s_;
  Expected expected_;
  int rank_;
  Buffer<float> buffer_;
  float *memory_ = nullptr, *send_ = nullptr, *recv_ = nullptr;
};

/// `body(program)` once all ranks have recorded the scenario. Returns why it was refused.
std::string with_program(const Scenario& s, model::Explorer& explorer,
                         const std::function<void(const model::Program&)>& body) {
  std::string refused;
  Recording& recording = Recording::instance();
  recording.most = s.shape;
  std::barrier<> all(s.ranks);
  run_ranks(s.ranks,
            [&](Communicator& comm, int rank) {
              Rank its(comm, s);
              all.arrive_and_wait();
              if (rank == 0) recording.on = true;
              all.arrive_and_wait();
              std::string refusal;
              try {
                its.record(comm);
              } catch (const Error& error) {
                refusal = error.what();
              }
              all.arrive_and_wait();
              if (rank == 0) {
                recording.on = false;
                refused = refusal;
                if (refusal.empty())
                  body(recording.program(explorer, [] { return std::string(); }));
                recording.clear();
              }
              all.arrive_and_wait();
            },
            {.backend = BackendKind::cuda});
  return refused;
}

std::string name_of(const Scenario& s) {
  static const char* const places[] = {"symmetric", "in place", "ordinary"};
  return std::string(name_of(s.subject.collective)) + " " + s.subject.algorithm + ", " +
         std::to_string(s.ranks) + " ranks, " + std::to_string(s.shape.blocks) + " blocks of " +
         std::to_string(s.shape.threads) + ", " + std::to_string(s.count) + " elements, " +
         places[static_cast<int>(s.where)];
}

/// Copies of copy engines are not launches, and messages take other arguments.
bool is_explored(const Subject& subject) {
  return subject.collective != Collective::send_recv && subject.algorithm != "copy_engine" &&
         subject.algorithm != "direct_copy";
}
/// In place in symmetric memory, buffers of a rooted collective have different offsets.
bool fits(const Subject& subject, Where where) {
  return where != Where::in_place ||
         (subject.collective != Collective::gather && subject.collective != Collective::scatter);
}

TEST(Model, EveryAlgorithmInEveryExecution) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "8388608");
  std::size_t scenarios = 0, executions = 0, steps = 0;
  for (const Subject& subject : all_algorithms())
    for (const int ranks : {2, 3})
      for (const LaunchShape shape : {LaunchShape{1, 1}, LaunchShape{2, 2}})
        for (const Where where : {Where::symmetric, Where::in_place, Where::ordinary}) {
          if (!is_explored(subject) || !fits(subject, where)) continue;
          const Scenario s{subject, ranks, shape, 24, where};
          model::Explorer explorer(20'000);
          const std::string refused = with_program(s, explorer, [&](const model::Program& program) {
            const model::Result result = explorer.explore(program);
            EXPECT_EQ(result.failure, "") << name_of(s);
            EXPECT_TRUE(result.complete) << name_of(s);
            ++scenarios;
            executions += result.executions;
            steps += result.steps;
          });
        }
  EXPECT_GT(scenarios, 500u);
  std::printf("%zu scenarios, %zu executions, %zu steps\n", scenarios, executions, steps);
}

}  // namespace
}  // namespace plait::test
