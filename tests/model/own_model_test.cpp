// Kernels of a program's own in all executions: signals, barriers, sums and totals, and collectives
// that end in a function; and one-sided calls.
#include "model/own_targets.hpp"
// After the targets.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>

#include "model/mutants.hpp"
#include "model/scenario.hpp"
#include "plait/kernel.hpp"
#include "plait/rows.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

constexpr int calls = 3;
constexpr unsigned elements = 3;  // of a block and its thread

/// Each block stores into its part of the next rank's memory, and says so; waits for the rank
/// before, and adds what that has stored to the sums of its block and of all. Then all store into
/// their own memory, and read what another thread of the next rank has stored.
struct PassOn {
  template <class Here>
  PLAIT_DEVICE void operator()(Here& here, PeerView<std::uint32_t> view, const std::uint32_t* from,
                               std::uint64_t* of_block, std::uint64_t* total) const {
    const std::size_t count = elements * here.stride();
    for (std::size_t i = here.index(); i < count; i += here.stride())
      view[view.after()][i] = from[i];
    here.signal(view.after(), 2);
    if (!here.wait(view.before(), 2)) return;
    std::uint64_t sums[1] = {};
    for (std::size_t i = here.index(); i < count; i += here.stride()) sums[0] += view.own()[i];
    std::uint64_t whole[1] = {sums[0]};
    if (!here.barrier()) return;
    for (std::size_t i = here.index(); i < count; i += here.stride()) view.own()[i] = from[i] + 1;
    if (!here.barrier()) return;
    const std::size_t mirrored = here.index() - here.thread() + here.threads() - 1 - here.thread();
    for (std::size_t i = mirrored; i < count; i += here.stride()) sums[0] += view[view.after()][i];
    if (!here.barrier()) return;
    if (!here.sum(sums)) return;
    if (here.thread() == 0) of_block[here.block()] = sums[0];
    here.total(whole, total);
  }
};

/// The function of rows: half of each sum.
struct Half {
  float* to;  // [row][columns]
  template <class Row>
  PLAIT_DEVICE void operator()(Row& row) const {
    row.each([&](auto piece, auto& values) {
      for (unsigned i = 0; i < Row::width; ++i)
        to[row.number() * row.columns() + piece.column + i] = values[i] / 2;
    });
  }
};

template <class T>
T input(int rank, int call, std::size_t i) {
  return static_cast<T>((rank * 31 + call * 17 + static_cast<int>(i) * 3) % 61);
}

/// A rank's program between calls.
class Program {
 public:
  explicit Program(Communicator& comm) : comm_(comm) {}
  void add(const std::function<void(Program&)>& body) {
    Recording::instance().add(comm_.rank(), {{1, 1}, [this, body](model::KernelWords& words) {
                                               words_ = &words;
                                               body(*this);
                                             }});
  }
  template <class T>
  void store(T* to, T value) {
    words_->explorer().plain_store(words_->its_thread(), to, &value, sizeof(T), {});
  }
  template <class T>
  void expect(const T* from, T wanted, const char* what) {
    T value{};
    words_->explorer().plain_load(words_->its_thread(), &value, from, sizeof(T), {});
    if (value != wanted) words_->explorer().fail(words_->its_thread(), what);
  }

 private:
  Communicator& comm_;
  model::KernelWords* words_ = nullptr;
};

void explore_all(int ranks, LaunchShape shape,
                 const std::function<void(Communicator&, std::barrier<>&)>& body) {
  Recording::instance().most = shape;
  std::barrier<> all(ranks);
  run_ranks(ranks, [&](Communicator& comm, int) { body(comm, all); },
            {.backend = BackendKind::cuda});
}
/// Each word weakened must be found, too.
Mutants& mutants() {
  static Mutants all;
  return all;
}
/// Explores the programs of a test, and prints what that took as model_test.cpp does.
class Exploration {
 public:
  Exploration(const char* what, std::size_t wanted) : what_(what), wanted_(wanted) {}
  ~Exploration() {
    EXPECT_EQ(scenarios_, wanted_) << "calls were refused";
    fmt::print(R"({{"what": "{}", "scenarios": {}, "executions": {}, )"
               R"("steps": {}, "seconds": {:.1f}}},)"
               "\n",
               what_, scenarios_, executions_, steps_, seconds_);
  }
  Exploration(const Exploration&) = delete;
  Exploration& operator=(const Exploration&) = delete;
  void operator()(model::Explorer& explorer, const model::Program& program) {
    const auto begin = std::chrono::steady_clock::now();
    const model::Result result = explorer.explore(program);
    EXPECT_EQ(result.failure.substr(0, 10'000), "");
    EXPECT_TRUE(result.complete);
    ++scenarios_;
    executions_ += result.executions;
    steps_ += result.steps;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    seconds_ += seconds.count();
    mutants().look_at(explorer, program);
  }

 private:
  const char* what_;
  std::size_t wanted_, scenarios_ = 0, executions_ = 0, steps_ = 0;
  double seconds_ = 0;
};

TEST(OwnKernels, HaveSignalsBarriersAndSums) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "2M");
  Exploration exploration("own kernel with signals, barriers, sums, a total", 6);
  // Sums of more than 32 threads take another step.
  for (const int ranks : {2, 3})
    for (const LaunchShape shape : {LaunchShape{1, 1}, LaunchShape{2, 2}, LaunchShape{1, 34}})
      explore_all(ranks, shape, [&](Communicator& comm, std::barrier<>& all) {
        const std::size_t blocks = shape.blocks, count = elements * blocks * shape.threads;
        const auto window = comm.allocate<std::uint32_t>(count);
        const auto own = comm.allocate<std::uint32_t>(count);
        const auto results = comm.allocate<std::uint64_t>(blocks + 1);
        Program program(comm);
        const auto sum = [=](int rank, int call, std::size_t block) {
          std::uint64_t all_of_it = 0;
          for (std::size_t i = 0; i < count; ++i)
            if (block == blocks || i / shape.threads % blocks == block)
              all_of_it += input<std::uint32_t>(rank, call, i);
          return all_of_it;
        };
        record_and_use(
            comm, all,
            [&] {
              for (int call = 0; call <= calls; ++call) {
                program.add([&, call](Program& p) {
                  for (std::size_t block = 0; call > 0 && block <= blocks; ++block) {
                    std::uint64_t wanted = 0;
                    for (int rank = 0; rank < ranks; ++rank) wanted += sum(rank, call - 1, block);
                    if (block < blocks)  // of both parts
                      wanted = 2 * wanted + static_cast<unsigned>(ranks) * count / blocks;
                    p.expect(results.data() + block, wanted, "a sum is wrong");
                  }
                  for (std::size_t i = 0; i < count; ++i)
                    p.store(own.data() + i, input<std::uint32_t>(comm.rank(), call, i));
                });
                if (call < calls)
                  launch(comm, {}, shape, PassOn{}, view_of(comm, window), own.data(),
                         results.data(), results.data() + blocks);
              }
            },
            std::ref(exploration));
      });
}

/// Five rows of sums, of own sums, or of each rank.
void explore_rows(Exploration& exploration, Collective collective, int ranks, RowsBy by) {
  constexpr std::size_t columns = 24, rows = 5, all_of_one = rows * columns;
  explore_all(ranks, {2, 2}, [&](Communicator& comm, std::barrier<>& all) {
    const auto many = static_cast<std::size_t>(ranks) * all_of_one;
    const std::size_t sent = collective == Collective::reduce_scatter ? many : all_of_one,
                      received = collective == Collective::all_gather ? many : all_of_one;
    const auto from = comm.allocate<float>(many), to = comm.allocate<float>(many);
    const auto wanted = [=, rank = comm.rank()](int call, std::size_t i) {
      if (collective == Collective::all_gather)
        return input<float>(static_cast<int>(i / all_of_one), call, i % all_of_one);
      const std::size_t first = sent == many ? static_cast<std::size_t>(rank) * all_of_one : 0;
      float sum = 0;
      for (int peer = 0; peer < ranks; ++peer) sum += input<float>(peer, call, first + i);
      return sum;
    };
    const auto call_rows = [&] {
      const Half half{to.data()};
      if (collective == Collective::all_gather)
        all_gather_rows(comm, {}, from.data(), rows, columns, half, by);
      else if (collective == Collective::reduce_scatter)
        reduce_scatter_rows(comm, {}, from.data(), rows, columns, half, by);
      else all_reduce_rows(comm, {}, from.data(), rows, columns, half, by);
    };
    Program program(comm);
    record_and_use(
        comm, all,
        [&] {
          for (int call = 0; call <= calls; ++call) {
            program.add([&, call](Program& p) {
              for (std::size_t i = 0; call > 0 && i < received; ++i)
                p.expect(to.data() + i, wanted(call - 1, i) / 2, "a row is wrong");
              for (std::size_t i = 0; i < sent; ++i)
                p.store(from.data() + i, input<float>(comm.rank(), call, i));
            });
            if (call < calls) call_rows();
          }
        },
        std::ref(exploration));
  });
}
TEST(OwnKernels, EndCollectivesInAFunction) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "16M");
  Exploration exploration("collectives that end in a function of rows", 14);
  for (const int ranks : {2, 3})
    for (const auto by : {RowsBy::packets, RowsBy::one_shot, RowsBy::two_shot})
      for (const auto collective :
           {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
        if (by != RowsBy::two_shot || collective == Collective::all_reduce)
          explore_rows(exploration, collective, ranks, by);
}

/// A rank puts its input into the next rank's memory, looks at what it got, and reads what it has
/// put; then the memory is free again.
TEST(OneSided, PutsGetsAndSignals) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "2M");
  Exploration exploration("put, get and signal", 4);
  for (const int ranks : {2, 3})
    for (const LaunchShape shape : {LaunchShape{1, 2}, LaunchShape{2, 2}})
      explore_all(ranks, shape, [&](Communicator& comm, std::barrier<>& all) {
        constexpr std::size_t count = 40;
        const auto window = comm.allocate<float>(count), own = comm.allocate<float>(count),
                   target = comm.allocate<float>(count);
        const int after = (comm.rank() + 1) % ranks, before = (comm.rank() + ranks - 1) % ranks;
        const CallOptions options{.blocks = shape.blocks, .threads = shape.threads};
        Program program(comm);
        record_and_use(
            comm, all,
            [&] {
              for (int call = 0; call < calls; ++call) {
                program.add([&, call](Program& p) {
                  for (std::size_t i = 0; i < count; ++i)
                    p.store(own.data() + i, input<float>(comm.rank(), call, i));
                });
                comm.put(window.window(), after, 0, own.data(), count * sizeof(float), true, {},
                         options);
                comm.wait_signal(before);
                comm.get(window.window(), after, 0, target.data(), count * sizeof(float), {},
                         options);
                program.add([&, call](Program& p) {
                  for (std::size_t i = 0; i < count; ++i) {
                    p.expect(window.data() + i, input<float>(before, call, i), "a put is wrong");
                    p.expect(target.data() + i, input<float>(comm.rank(), call, i),
                             "a get is wrong");
                  }
                });
                comm.signal(before);
                comm.wait_signal(after);
              }
            },
            std::ref(exploration));
      });
}

TEST(WordsOfTheseKernels, AreAllNeeded) { mutants().expect_all_found(); }

}  // namespace
}  // namespace plait::test
