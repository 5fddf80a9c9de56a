// networked_ranks FOLDER MILLISECONDS [allocate]: one rank of several, which meet by the variables
// of torchrun. Adds a line to FOLDER/made, and waits for FOLDER/go. Makes rounds of collectives and
// checks their results, until FOLDER/stop exists; sleeps for MILLISECONDS before each. With
// `allocate`, it allocates over and over instead. Rank 0 adds a line to FOLDER/rounds after each.
// Prints the end of its calls, with the time; an error only once it has destroyed the communicator:
//   rank 1 at 1764101.250: right after 57 rounds             and its exit status is 0
//   rank 1 at 1764101.250: rank_lost: rank 2 on node n1 ...  and its exit status is 3
// nodes_network_test.sh disturbs the network and the processes meanwhile.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;
using Values = std::vector<std::uint32_t>;

void say(int rank, std::string_view what) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("rank %d at %.3f: %.*s\n", rank, now.count(), static_cast<int>(what.size()),
              what.data());
  std::fflush(stdout);
}

/// The calls of a round, in blocks of `count` elements. Element i of block b of rank r is
/// `scale` * (`round` + 3 r + 5 b + 7 i), so all that ranks receive is known.
class Round {
 public:
  Round(Communicator& comm, std::size_t count, std::uint32_t round)
      : comm_(comm),
        ranks_(static_cast<std::uint32_t>(comm.size())),
        rank_(static_cast<std::uint32_t>(comm.rank())),
        root_(static_cast<int>(round % ranks_)),
        count_(count),
        round_(round) {}

  void enqueue() {
    const std::span<const std::uint32_t> own(mine_), block = own.first(count_);
    comm_.all_reduce(own, std::span(summed_), ReduceOp::sum);
    comm_.reduce_scatter(own, std::span(scattered_), ReduceOp::sum);
    comm_.all_gather(block, std::span(gathered_));
    comm_.all_to_all(own, std::span(exchanged_));
    comm_.broadcast(block, std::span(broadcast_), root_);
    comm_.reduce(block, std::span(reduced_), ReduceOp::sum, root_);
    comm_.barrier();
  }
  /// Once the calls are done: empty, or the name of the first call whose result is wrong.
  std::string_view wrong() const {
    const auto root = static_cast<std::uint32_t>(root_);
    for (std::uint32_t b = 0; b < ranks_; ++b) {
      if (!is(summed_, b, [&](std::size_t i) { return sum(b, i); })) return "all_reduce";
      if (!is(gathered_, b, [&](std::size_t i) { return value(b, 0, i); })) return "all_gather";
      if (!is(exchanged_, b, [&](std::size_t i) { return value(b, rank_, i); }))
        return "all_to_all";
    }
    if (!is(scattered_, 0, [&](std::size_t i) { return sum(rank_, i); })) return "reduce_scatter";
    if (!is(broadcast_, 0, [&](std::size_t i) { return value(root, 0, i); })) return "broadcast";
    if (rank_ == root && !is(reduced_, 0, [&](std::size_t i) { return sum(0, i); }))
      return "reduce";
    return {};
  }

 private:
  static constexpr std::uint32_t scale = 0x9e3779b1;  // so that no byte is always zero
  std::uint32_t value(std::uint32_t rank, std::uint32_t block, std::size_t i) const {
    return scale * (round_ + 3 * rank + 5 * block + 7 * static_cast<std::uint32_t>(i));
  }
  std::uint32_t sum(std::uint32_t block, std::size_t i) const {
    return ranks_ * value(0, block, i) + scale * 3 * (ranks_ * (ranks_ - 1) / 2);
  }
  Values input() const {
    Values values(ranks_ * count_);
    for (std::uint32_t b = 0; b < ranks_; ++b)
      for (std::size_t i = 0; i < count_; ++i) values[b * count_ + i] = value(rank_, b, i);
    return values;
  }
  template <class Wanted>
  bool is(const Values& received, std::uint32_t block, Wanted wanted) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (received[block * count_ + i] != wanted(i)) return false;
    return true;
  }

  Communicator& comm_;
  std::uint32_t ranks_, rank_;
  int root_;
  std::size_t count_;
  std::uint32_t round_;
  Values mine_ = input(), summed_ = Values(ranks_ * count_), gathered_ = summed_,
         exchanged_ = summed_, scattered_ = Values(count_), broadcast_ = scattered_,
         reduced_ = scattered_;
};

/// Rounds until rank 0 says that it is enough. The number of rounds, or -1 after a wrong result.
int make_rounds(Communicator& comm, const std::filesystem::path& folder,
                std::chrono::milliseconds pause) {
  for (std::uint32_t round = 0;; ++round) {
    std::this_thread::sleep_for(pause);
    Values enough{comm.rank() == 0 && exists(folder / "stop") ? 1u : 0u};
    comm.broadcast(std::span<const std::uint32_t>(enough), std::span(enough), 0);
    Round small(comm, 100, round), large(comm, 30'000, round);
    small.enqueue();
    large.enqueue();
    comm.synchronize();
    for (const Round* calls : {&small, &large})
      if (const std::string_view call = calls->wrong(); !call.empty()) {
        say(comm.rank(), std::string(call) + " is wrong");
        return -1;
      }
    if (comm.rank() == 0) std::ofstream(folder / "rounds", std::ios::app) << round << '\n';
    if (enough.front() != 0) return static_cast<int>(round + 1);
  }
}

void allocate_for_ever(Communicator& comm, const std::filesystem::path& folder) {
  for (int round = 0;; ++round) {
    comm.allocate<float>(100);
    if (comm.rank() == 0) std::ofstream(folder / "rounds", std::ios::app) << round << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::chrono::milliseconds pause(std::atoi(argv[2]));
  int rank = -1;
  try {
    CommunicatorOptions options;
    options.backend = BackendKind::host;
    Communicator comm = make_world_communicator(options);
    rank = comm.rank();
    std::ofstream(std::filesystem::path(argv[1]) / "made", std::ios::app) << rank << '\n';
    while (!exists(std::filesystem::path(argv[1]) / "go"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (argc > 3) allocate_for_ever(comm, argv[1]);
    const int rounds = make_rounds(comm, argv[1], pause);
    if (rounds < 0) return 1;
    say(rank, "right after " + std::to_string(rounds) + " rounds");
    return 0;
  } catch (const Error& error) {  // the communicator is destroyed by now
    say(rank, std::string(name_of(error.code())) + ": " + error.what());
    return 3;
  }
}
