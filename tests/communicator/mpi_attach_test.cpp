// Memory of the program's own, attached by ranks that are processes of the host: memory files,
// MPI's shared windows, memory that peers can only read by system calls; what was freed without
// detach; and random steps of all of these. To be run by mpirun with two ranks or more.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "plait/mpi.hpp"
#include "support/covering.hpp"
#include "support/data.hpp"
#include "support/errors.hpp"
#include "support/mpi_main.hpp"
#include "support/ranks.hpp"
#include "support/sums.hpp"

namespace plait::test {
namespace {

constexpr std::size_t page = 4096, count = 5000;

enum class Kind { file, private_memory };

/// Mapped memory, at `at` if that is given.
class Mapped {
 public:
  explicit Mapped(Kind kind, std::size_t pages = 8, void* at = nullptr) : bytes_(pages * page) {
    const int fd = kind == Kind::file ? memfd_create("program", MFD_CLOEXEC) : -1;
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes_)) != 0) std::abort();
    const int flags = kind == Kind::file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    base_ = map(at, flags | (at == nullptr ? 0 : MAP_FIXED_NOREPLACE), fd);
    if (base_ == MAP_FAILED) base_ = map(nullptr, flags, fd);  // Plait may have mappings there
    if (base_ == MAP_FAILED) std::abort();
    fd_ = fd;  // by which it is found
  }
  ~Mapped() {
    if (base_ != nullptr) munmap(base_, bytes_);
    if (fd_ >= 0) close(fd_);
  }
  Mapped(Mapped&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        bytes_(other.bytes_),
        fd_(std::exchange(other.fd_, -1)) {}
  Mapped& operator=(Mapped&&) = delete;
  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* map(void* at, int flags, int fd) const {
    return static_cast<std::byte*>(mmap(at, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0));
  }

  std::byte* base_ = nullptr;
  std::size_t bytes_;
  int fd_ = -1;
};

Communicator make() { return make_communicator(MPI_COMM_WORLD, test_options()); }

class MpiAttach : public testing::Test {
 protected:
  void SetUp() override {
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) GTEST_SKIP() << "needs two ranks";
  }
};

/// A get from the next rank, and a put to it, of hashed bytes.
void exchange(Communicator& comm, const std::shared_ptr<Window>& window, std::byte* memory,
              bool puts) {
  const int n = comm.size(), next = (comm.rank() + 1) % n, last = (comm.rank() + n - 1) % n;
  constexpr std::size_t bytes = 5000;
  std::vector<std::byte> own(bytes), got(bytes);
  const auto byte = [](int rank, std::size_t i) {
    return static_cast<std::byte>(hash(5, static_cast<std::uint64_t>(rank), i));
  };
  for (std::size_t i = 0; i < bytes; ++i) own[i] = memory[8192 + i] = byte(comm.rank(), i);
  comm.barrier();
  comm.get(window, next, 8192, got.data(), bytes);
  if (puts) {
    comm.put(window, next, 0, own.data(), bytes, true);
    comm.wait_signal(last);
  }
  comm.synchronize();
  for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(got[i], byte(next, i));
  for (std::size_t i = 0; puts && i < bytes; ++i) ASSERT_EQ(memory[i], byte(last, i));
  comm.barrier();
  comm.synchronize();
}

TEST_F(MpiAttach, MemoryFiles) {
  Communicator comm = make();
  const auto rank = static_cast<std::size_t>(comm.rank());
  Mapped memory(Kind::file, 8 + rank);
  std::byte* const at = memory.base() + 48 * rank;
  const auto window = comm.attach(at, memory.bytes() - 48 * rank);
  for (std::uint64_t call = 0; call < 4; ++call) expect_sum(comm, at, count, call, needs_symmetric);
  exchange(comm, window, at, true);
  comm.detach(window);
  expect_sum(comm, at, count, 9);
}

/// A mapping of a part of a file, which a neighbouring mapping continues.
TEST_F(MpiAttach, PiecesOfFiles) {
  Communicator comm = make();
  const auto pages = [] {
    std::size_t all = 0;
    std::ifstream("/proc/self/statm") >> all;
    return all;
  };
  {
    Mapped huge(Kind::file, 1 << 20);
    const std::size_t before = pages();
    const auto window = comm.attach(huge.base() + (page << 10), 8 * page);
    EXPECT_LT(pages(), before + (1 << 18)) << "peers map more than is attached";
    expect_sum(comm, huge.base() + (page << 10), count, 1, needs_symmetric);
    comm.detach(window);
  }
  Mapped memory(Kind::file, 16);
  ASSERT_EQ(mprotect(memory.base() + 3 * page, page, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
  const auto window = comm.attach(memory.base() + 2 * page, 6 * page);
  expect_sum(comm, memory.base() + 2 * page, count, 1, needs_symmetric);
  comm.detach(window);
}

/// While it exists, this thread has no more rights than any user's.
class OrdinaryRights {
 public:
  OrdinaryRights() {
    syscall(SYS_capget, &header_, saved_.data());
    auto none = saved_;
    for (auto& word : none) word.effective = 0;
    syscall(SYS_capset, &header_, none.data());
  }
  ~OrdinaryRights() { syscall(SYS_capset, &header_, saved_.data()); }
  OrdinaryRights(const OrdinaryRights&) = delete;
  OrdinaryRights& operator=(const OrdinaryRights&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> saved_{};
};

/// A file that all have mapped and nobody has open, and that has lost its name, as MPI's segments.
TEST_F(MpiAttach, FilesWithoutAName) {
  Communicator comm = make();
  constexpr std::size_t each = 8 * page;
  const auto rank = static_cast<std::size_t>(comm.rank()),
             ranks = static_cast<std::size_t>(comm.size());
  const std::string name = fmt::format("/plait-test-{}", comm.bootstrap().broadcast(getpid(), 0));
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(ranks * each)), 0);
  auto* const all = static_cast<std::byte*>(
      mmap(nullptr, ranks * each, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  close(fd);
  comm.bootstrap().barrier();
  if (rank == 0) shm_unlink(name.c_str());
  comm.bootstrap().barrier();
  const OrdinaryRights ordinary;
  std::byte* const own = all + rank * each + 48;
  const auto window = comm.attach(own, each - 48);
  munmap(all, rank * each);
  munmap(all + (rank + 1) * each, (ranks - rank - 1) * each);
  for (std::uint64_t call = 0; call < 4; ++call)
    expect_sum(comm, own, count, call, needs_symmetric);
  exchange(comm, window, own, true);
  comm.detach(window);
  munmap(all + rank * each, each);
}

/// Open MPI's segment of a rank may begin at an odd multiple of 8.
TEST_F(MpiAttach, SharedWindowsOfMpi) {
  Communicator comm = make();
  MPI_Win win{};
  void* base = nullptr;
  constexpr std::size_t bytes = count * sizeof(float) + 16;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  std::size_t room = bytes;
  void* aligned = std::align(16, count * sizeof(float), base, room);
  const auto window = comm.attach(aligned, count * sizeof(float));
  expect_sum(comm, aligned, count, 1, needs_symmetric);
  comm.detach(window);
  MPI_Win_free(&win);
}

/// Such memory stays ordinary for calls.
TEST_F(MpiAttach, PrivateMemory) {
  Communicator comm = make();
  Mapped memory(Kind::private_memory);
  if (const auto error = error_of([&] {
        const auto window = comm.attach(memory.base(), memory.bytes());
        EXPECT_FALSE(comm.is_symmetric(memory.base(), 1));
        expect_sum(comm, memory.base(), count, 1);
        expect_throws(
            ErrorCode::unsupported,
            [&] { comm.put(window, (comm.rank() + 1) % comm.size(), 0, memory.base(), 1); },
            "can be read and not written");
        exchange(comm, window, memory.base(), false);
        comm.detach(window);
      }))
    expect_error(error, ErrorCode::unsupported, testing::HasSubstr("read each other's"));
}

/// Such memory is written for a rank of another node, because its own process does it. Ranks 0 and
/// 1 share a node, and rank 2 is on another.
TEST_F(MpiAttach, PrivateMemoryOfOtherNodes) {
  if (std::getenv("PLAIT_NODE") == nullptr) return;
  Communicator comm = make();
  const int rank = comm.rank();
  constexpr std::size_t bytes = 5000;
  const auto byte = [](int from, int to, std::size_t i) {
    return static_cast<std::byte>(
        hash(static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), i));
  };
  Mapped memory(Kind::private_memory);
  std::shared_ptr<Window> window;
  if (const auto error = error_of([&] { window = comm.attach(memory.base(), memory.bytes()); }))
    return expect_error(error, ErrorCode::unsupported, testing::HasSubstr("read each other's"));
  const std::vector<int> peers = rank == 2 ? std::vector{0, 1} : std::vector{2};
  const auto place = [](int from) { return 8192 * static_cast<std::size_t>(from); };
  std::vector<std::byte> own(bytes), got(bytes);
  for (const int peer : peers) {
    for (std::size_t i = 0; i < bytes; ++i) own[i] = byte(rank, peer, i);
    comm.put(window, peer, place(rank), own.data(), bytes, true);
    comm.get(window, peer, place(rank), got.data(), bytes);
    comm.wait_signal(peer);
    comm.synchronize();
    EXPECT_EQ(got, own);
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(memory.base()[place(peer) + i], byte(peer, rank, i)) << "of rank " << peer;
  }
  comm.detach(window);
}

/// One rank's memory is private, so no rank's is symmetric.
TEST_F(MpiAttach, MixedMemory) {
  Communicator comm = make();
  Mapped memory(comm.rank() == 1 ? Kind::private_memory : Kind::file);
  std::shared_ptr<Window> window;
  if (error_of([&] { window = comm.attach(memory.base(), memory.bytes()); })) return;
  EXPECT_FALSE(comm.is_symmetric(memory.base(), 1));
  expect_sum(comm, memory.base(), count, 1);
  comm.detach(window);
}

/// Freed without detach, and the addresses used again: an error, never old memory.
TEST_F(MpiAttach, FreedMemoryIsNoticed) {
  Communicator comm = make();
  auto memory = std::make_unique<Mapped>(Kind::file);
  std::byte* const at = memory->base();
  const std::size_t bytes = memory->bytes();
  auto window = comm.attach(at, bytes);
  for (std::uint64_t call = 0; call < 4; ++call) expect_sum(comm, at, count, call);  // known
  memory.reset();
  const Mapped again(Kind::file, bytes / page, at);
  ASSERT_EQ(again.base(), at);
  expect_invalid(
      [&] {
        comm.all_reduce(reinterpret_cast<float*>(at), reinterpret_cast<float*>(at), count,
                        DataType::f32, ReduceOp::sum);
      },
      "freed since, without `detach`");
  const auto renewed = comm.attach(at, bytes);
  expect_sum(comm, at, count, 7, needs_symmetric);
  window.reset();
  expect_sum(comm, at, count, 8, needs_symmetric);
  comm.detach(renewed);
}

std::size_t lines_of(const char* file) {
  std::ifstream all(file);
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(all), std::istreambuf_iterator<char>(), '\n'));
}
std::size_t open_files() {
  std::size_t open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return open;
}

TEST_F(MpiAttach, ManyRoundsLeaveNothing) {
  Communicator comm = make();
  Mapped memory(Kind::file);
  const auto round = [&] { comm.detach(comm.attach(memory.base(), memory.bytes())); };
  for (int i = 0; i < 10; ++i) round();
  const std::size_t maps = lines_of("/proc/self/maps"), files = open_files();
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_LE(lines_of("/proc/self/maps"), maps + 4);
  EXPECT_EQ(open_files(), files);
  expect_sum(comm, memory.base(), count, 3);
}

/// Random steps, the same on all ranks: memory comes, is attached, used, detached, freed with and
/// without detach, and comes again at the same addresses; children come and go.
class Steps {
 public:
  Steps(Communicator& comm, std::uint64_t seed) : comm_(comm), seed_(seed), pieces_(5) {}

  void step(std::uint64_t i) {
    Piece& piece = pieces_[pick(i, 1) % pieces_.size()];
    const std::uint64_t what = pick(i, 2) % 10;
    if (piece.memory == nullptr) return allocate(piece, i);
    if (what == 0) return fork_child(piece);
    if (what <= 2) return piece.window == nullptr ? attach(piece) : detach(piece);
    if (what == 3) return free(piece, i);
    use(piece, i);
  }

 private:
  struct Piece {
    Kind kind{};
    std::unique_ptr<Mapped> memory;
    std::shared_ptr<Window> window;
    void* last = nullptr;  // where it was
  };
  std::uint64_t pick(std::uint64_t i, std::uint64_t of) const { return hash(seed_, of, i); }

  void allocate(Piece& piece, std::uint64_t i) {
    piece.kind = pick(i, 3) % 4 == 0 ? Kind::private_memory : Kind::file;
    piece.memory = std::make_unique<Mapped>(piece.kind, 6, piece.last);
    piece.last = piece.memory->base();
  }
  void attach(Piece& piece) {
    static_cast<void>(error_of(  // where no process reads another's memory
        [&] { piece.window = comm_.attach(piece.memory->base(), piece.memory->bytes()); }));
  }
  void detach(Piece& piece) {
    comm_.detach(piece.window);
    piece.window.reset();
  }
  void free(Piece& piece, std::uint64_t i) {
    comm_.barrier();  // a peer may still be in a call
    comm_.synchronize();
    if (piece.window != nullptr && pick(i, 4) % 2 == 0) detach(piece);
    piece.memory.reset();
    piece.window.reset();
  }
  void use(Piece& piece, std::uint64_t i) {
    const std::size_t values = pick(i, 5) % 6000 + 1;
    const bool symmetric = comm_.is_symmetric(piece.memory->base(), 1);
    EXPECT_EQ(symmetric, piece.window != nullptr && piece.kind == Kind::file);
    expect_sum(comm_, piece.memory->base(), values, i,
               symmetric && pick(i, 6) % 2 == 0 ? needs_symmetric : CallOptions{});
  }
  void fork_child(const Piece& piece) {
    const pid_t child = fork();
    if (child == 0) {
      const bool refused =
          error_of([&] { comm_.attach(piece.memory->base(), piece.memory->bytes()); }).has_value();
      _exit(refused ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  Communicator& comm_;
  std::uint64_t seed_;
  std::vector<Piece> pieces_;
};

TEST_F(MpiAttach, RandomSteps) {
  Communicator comm = make();
  Steps steps(comm, 46);
  for (std::uint64_t i = 0; i < unless_full(2000, 100000) && !HasFailure(); ++i) steps.step(i);
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  setenv("PLAIT_BACKEND", "host", 1);
  return plait::test::run_tests_of_processes(argc, argv);
}
