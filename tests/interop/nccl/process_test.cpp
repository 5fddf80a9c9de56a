// Ranks that are processes, as programs have them: the id goes from rank 0 to the others as bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interop/nccl/ranks.hpp"

namespace plait::nccl::test {
namespace {

constexpr int ranks = 3;

std::string hex(const IdBytes& id) {
  std::string text;
  for (const char byte : id.bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(byte));
    text += two;
  }
  return text;
}
IdBytes from_hex(const char* text) {
  IdBytes id{};
  for (std::size_t i = 0; i < sizeof id.bytes; ++i) {
    const char two[3] = {text[2 * i], text[2 * i + 1], 0};
    id.bytes[i] = static_cast<char>(std::strtol(two, nullptr, 16));
  }
  return id;
}

/// Starts rank `rank` of `id` as a process, which does `task`.
pid_t start(int rank, const IdBytes& id, const char* task) {
  const std::string id_text = hex(id), rank_text = std::to_string(rank);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "nccl_process_test", "--rank", rank_text.c_str(), id_text.c_str(), task,
          nullptr);
    _exit(127);
  }
  return child;
}
int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void work(int rank, CommHandle comm) {
  check_sum(comm, rank, ranks);
  std::vector<float> data(1 << 16, static_cast<float>(rank));
  OK(ncclAllReduce(data.data(), data.data(), data.size(), float32, op_max, comm, nullptr));
  EXPECT_THAT(data, testing::Each(ranks - 1));
  CommHandle part = nullptr;
  OK(ncclCommSplit(comm, rank % 2, rank, &part, nullptr));
  check_sum(part, own_rank(part), rank_count(part));
  EXPECT_OK(ncclCommDestroy(part));
  EXPECT_OK(ncclCommFinalize(comm));
  EXPECT_OK(ncclCommDestroy(comm));
}

/// Rank 2's process ends without a word. The others go on without it.
void lose_rank(int rank, CommHandle comm) {
  if (rank == 2) _exit(0);
  // What they wait for never comes, and nobody sets a deadline.
  EXPECT_EQ(state_after(comm, Result::success), Result::remote_error);
  EXPECT_NE(std::string(ncclGetLastError(comm)).find("rank 2"), std::string::npos)
      << ncclGetLastError(comm);
  int lost = 2;
  CommHandle rest = nullptr;
  OK(ncclCommShrink(comm, &lost, 1, &rest, nullptr, shrink_aborts));
  check_sum(rest, rank, 2);
  EXPECT_OK(ncclCommDestroy(rest));
  EXPECT_OK(ncclCommAbort(comm));
}

void take_part(int rank, const IdBytes& id, const std::string& task) {
  CommHandle comm = nullptr;
  if (task == "refused") {
    EXPECT_INVALID(ncclCommInitRank(&comm, 1, id, rank), "the process that created the id");
    return;
  }
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  if (task == "work") work(rank, comm);
  else lose_rank(rank, comm);
}

void run(const char* task) {
  const IdBytes id = new_id();
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) children.push_back(start(rank, id, task));
  take_part(0, id, task);
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
}

TEST(Processes, Work) { run("work"); }
TEST(Processes, GoOnWithoutARankThatIsLost) { run("lose"); }

TEST(Processes, AnIdIsForTheProcessThatMadeIt) {
  const IdBytes id = new_id();
  CommHandle comm = nullptr;
  const pid_t child = fork();
  if (child == 0) {  // a child of fork may be rank 0
    const Result result = ncclCommInitRank(&comm, 1, id, 0);
    _exit(result == Result::success ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(status_of(start(0, id, "refused")), 0) << "another program can't";
}

}  // namespace
}  // namespace plait::nccl::test

int main(int argc, char** argv) {
  using namespace plait::nccl::test;
  testing::InitGoogleTest(&argc, argv);
  if (argc == 5 && std::strcmp(argv[1], "--rank") == 0) {
    take_part(std::atoi(argv[2]), from_hex(argv[3]), argv[4]);
    return testing::Test::HasFailure() ? 1 : 0;
  }
  return RUN_ALL_TESTS();
}
