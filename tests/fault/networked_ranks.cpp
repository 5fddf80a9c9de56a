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

#include "fault/ranks/round.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using test::Round;
using Values = std::vector<std::uint32_t>;

void say(int rank, std::string_view what) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("rank %d at %.3f: %.*s\n", rank, now.count(), static_cast<int>(what.size()),
              what.data());
  std::fflush(stdout);
}

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
