// Ranks that do everything a communicator offers, in an order drawn from a seed that all share,
// until the time is over or an error ends it. soak.py kills or stops one of them at a random moment
// and judges what the others say.
//
//   soak_ranks SEED SECONDS FOLDER     writes the process number to FOLDER/RANK, then "ready" lines
//   as it goes
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plait/mpi.hpp"
#include "plait/plait.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// The rank's current activity, for its last line.
std::string phase = "start";

/// The job's ranks behind those of the communicator in use: errors number ranks as it does.
std::vector<int> members;

/// One communicator and the memory for its calls.
class Job {
 public:
  static constexpr std::size_t most = 1 << 16;  // elements of a rank's block

  Job(plait::Communicator comm, unsigned seed) : comm_(std::move(comm)), random_(seed) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    phase = "bootstrap";
    before_ = std::exchange(members, comm_.bootstrap().all_gather(rank));
    phase = "allocate";
    symmetric_ = comm_.allocate<float>(most * ranks());
    send_.assign(most * ranks(), 1.0f);
    recv_.assign(most * ranks(), 0.0f);
  }

  /// An error leaves them as they are, for the last line.
  ~Job() {
    if (std::uncaught_exceptions() == 0) members = before_;
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  plait::Communicator& comm() { return comm_; }

  /// All ranks draw the same: their generators have the same seed and no rank draws alone.
  void step(int depth) {
    const unsigned kind = draw(depth > 0 ? 10 : 14);
    if (kind == 10) return divide(depth);
    if (kind == 11) return again(depth);
    if (kind == 12) return allocate();
    if (kind == 13) {
      phase = "PLAIT barrier on the host";
      return comm_.bootstrap().barrier();
    }
    for (unsigned calls = 1 + draw(4); calls > 0; --calls) collective(kind);
    if (draw(2) == 0) wait();
  }

  void wait() {
    comm_.synchronize();
    phase = "between calls";
  }

 private:
  unsigned draw(unsigned choices) { return static_cast<unsigned>(random_() % choices); }
  std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }

  void divide(int depth) {
    phase = "split";
    const int key = static_cast<int>(draw(7)) * (comm_.rank() % 2 == 0 ? 1 : -1);
    const auto seed = static_cast<unsigned>(random_());
    auto part = comm_.split(comm_.rank() % 2, key);
    if (part->size() > 1) use(std::move(*part), seed, depth);
  }
  void again(int depth) {
    phase = "duplicate";
    const auto seed = static_cast<unsigned>(random_());
    use(comm_.duplicate(), seed, depth);
  }
  static void use(plait::Communicator comm, unsigned seed, int depth) {
    Job job(std::move(comm), seed);
    for (int i = 0; i < 3; ++i) job.step(depth + 1);
    job.wait();
  }
  void allocate() {
    phase = "allocate";
    const auto buffer = comm_.allocate<double>(1 + draw(1 << 18));
    comm_.all_reduce(buffer.span(), buffer.span(), plait::ReduceOp::sum);
    wait();
  }

  void collective(unsigned kind) {
    const std::size_t count = std::size_t{1} << draw(17);
    const int root = static_cast<int>(draw(static_cast<unsigned>(ranks())));
    const bool inside = draw(2) == 0;  // symmetric memory
    float* const send = inside ? symmetric_.data() : send_.data();
    float* const recv = inside ? symmetric_.data() : recv_.data();
    const plait::DataType type = plait::DataType::f32;
    const plait::ReduceOp op = plait::ReduceOp::max;
    switch (kind) {
      case 0:
        phase = "broadcast";
        return comm_.broadcast(send, recv, count, type, root);
      case 1:
        phase = "reduce";
        return comm_.reduce(send, recv, count, type, op, root);
      case 2:
        phase = "all_gather";
        return comm_.all_gather(send_.data(), recv, count, type);
      case 3:
        phase = "all_to_all";
        return comm_.all_to_all(send_.data(), recv_.data(), count, type);
      case 4:
        phase = "barrier";
        return comm_.barrier();
      case 5: {
        phase = "send_recv";
        const int next = (comm_.rank() + 1) % comm_.size(),
                  before = (comm_.rank() + comm_.size() - 1) % comm_.size();
        return comm_.send_recv(send_.data(), count, next, recv_.data(), count, before, type);
      }
      case 6:
        phase = "reduce_scatter";
        return comm_.reduce_scatter(send_.data(), recv_.data(), count, type, op);
      case 7: {
        phase = "group";
        plait::Group group;
        for (std::size_t i = 0; i < 4; ++i) {  // calls of a group must not share memory
          float* const part = send_.data() + i * (most / 4);
          comm_.all_reduce(part, part, std::min(count, most / 4), type, op);
        }
        return group.end();
      }
      default: {
        static const std::vector<std::string> names = {
            "",       "oneshot_ll",         "twoshot_ll",       "oneshot_ll128", "ring",
            "stream", "recursive_doubling", "halving_doubling", "tree",          "twoshot_ll128"};
        const std::string& name = names[draw(static_cast<unsigned>(names.size()))];
        phase = "all_reduce by " + (name.empty() ? "what is chosen" : name);
        return comm_.all_reduce(send, recv, count, type, op, {}, {.algorithm = name});
      }
    }
  }

  // Before the communicator, which waits for its kernels when an error destroys it: they may still
  // use this memory.
  std::vector<float> send_, recv_;
  plait::Communicator comm_;
  std::vector<int> before_;
  std::minstd_rand random_;
  plait::Buffer<float> symmetric_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto seed = static_cast<unsigned>(std::atoi(argv[1]));
  const auto end = Clock::now() + std::chrono::duration<double>(std::atof(argv[2]));
  MPI_Init(nullptr, nullptr);  // here: a rank that is lost in it leaves the others waiting in MPI,
                               // where Plait can't reach them
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  const std::string rank = std::to_string(number);
  {
    const std::string path = std::string(argv[3]) + "/" + rank;
    std::ofstream(path + ".new") << getpid() << '\n';
    std::rename((path + ".new").c_str(), path.c_str());
  }
  try {
    phase = "create";
    Job job(plait::make_communicator(MPI_COMM_WORLD), seed);
    // Time differs between ranks: the first one's counts.
    for (int more = 1; more != 0;) {
      for (int i = 0; i < 20; ++i) job.step(0);
      job.wait();
      phase = "agreeing on the time";
      more = job.comm().bootstrap().broadcast(Clock::now() < end ? 1 : 0, 0);
    }
    phase = "end";
  } catch (const plait::Error& error) {
    std::string of;
    for (const int member : members) of += (of.empty() ? "" : " ") + std::to_string(member);
    std::printf("rank %s of [%s]: in %s: %s: %s\n", rank.c_str(), of.c_str(), phase.c_str(),
                std::string(name_of(error.code())).c_str(), error.what());
    std::fflush(stdout);
    std::_Exit(0);  // MPI_Finalize would wait for the rank that is lost
  }
  std::printf("rank %s: no error\n", rank.c_str());
  std::fflush(stdout);
  MPI_Finalize();
}
