// Blocking calls on the host target beside MPI's, in one run: call, wait, call again. To be run by
// mpirun with two ranks.
//
// Times of a shared machine say little, ratios in one run more: rounds of both take turns, and of
// each the lower quartile counts, which other programs disturb least. The limits leave room for
// what noise remains; a hand-off to another thread for each call is beyond them, and so is a second
// copy of a large message.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "plait/mpi.hpp"
#include "plait/plait.hpp"
#include "support/mpi_main.hpp"

namespace plait {
namespace {

constexpr int rounds = 25, attempts = 4;

struct Way {
  std::string what;
  std::size_t bytes;
  double most;  // Plait's time over MPI's
  std::function<void()> plait, mpi;
};

class Blocking : public testing::Test {
 protected:
  /// The slower rank's microseconds a call.
  static double time(const std::function<void()>& call, int calls) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    double mine =
               std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                   .count() /
               calls,
           slower = 0;
    MPI_Allreduce(&mine, &slower, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slower;
  }
  static double quartile(std::vector<double>& times) {
    const auto place = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
    std::nth_element(times.begin(), place, times.end());
    return *place;
  }
  /// The same on all ranks.
  static double ratio(const Way& way) {
    const int calls = way.bytes > 16384 ? 20 : 100;
    std::vector<double> plait, mpi;
    for (int round = 0; round < rounds; ++round) {
      plait.push_back(time(way.plait, calls));
      mpi.push_back(time(way.mpi, calls));
    }
    const double ours = quartile(plait), theirs = quartile(mpi);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
      fmt::print("{:<11} {:>8} B: {:9.2f} us, MPI {:9.2f} us, ratio {:.2f}, at most {}\n", way.what,
                 way.bytes, ours, theirs, ours / theirs, way.most);
    return ours / theirs;
  }
  static void expect_beside_mpi(const std::vector<Way>& ways) {
    for (const Way& way : ways) {
      double least = ratio(way);
      for (int attempt = 1; attempt < attempts && least > way.most; ++attempt)
        least = std::min(least, ratio(way));
      EXPECT_LE(least, way.most) << way.what << " of " << way.bytes << " B";
    }
  }
  void SetUp() override {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) GTEST_SKIP() << "is for two ranks";
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "two ranks need two processors";
  }
};

TEST_F(Blocking, CallsStandBesideMpi) {
  Communicator comm = make_communicator(MPI_COMM_WORLD, {.backend = BackendKind::host});
  constexpr std::size_t most = 16384;
  std::vector<float> send(most, 1), recv(2 * most);
  const auto type = DataType::f32;
  const auto waited = [&](auto call) {
    return [&comm, call] {
      call();
      comm.synchronize();
    };
  };
  std::vector<Way> ways;
  for (const auto& [floats, limit] :
       {std::pair{std::size_t{16}, 2.5}, {256, 2.6}, {1024, 2.0}, {16384, 2.0}}) {
    const std::size_t count =
        floats;  // which lambdas can capture: clang 14 can't capture a structured binding
    const int n = static_cast<int>(count);
    ways.push_back({"all_reduce", 4 * count, limit, waited([&, count] {
                      comm.all_reduce(send.data(), recv.data(), count, type, ReduceOp::sum);
                    }),
                    [&, n] {
                      MPI_Allreduce(send.data(), recv.data(), n, MPI_FLOAT, MPI_SUM,
                                    MPI_COMM_WORLD);
                    }});
  }
  ways.push_back({"all_gather", 1024, 3.0,
                  waited([&] { comm.all_gather(send.data(), recv.data(), 256, type); }), [&] {
                    MPI_Allgather(send.data(), 256, MPI_FLOAT, recv.data(), 256, MPI_FLOAT,
                                  MPI_COMM_WORLD);
                  }});
  const int next = (comm.rank() + 1) % comm.size(),
            before = (comm.rank() + comm.size() - 1) % comm.size();
  for (const auto& [floats, limit] : {std::pair{std::size_t{16}, 7.5}, {1024, 2.2}, {16384, 2.2}}) {
    const std::size_t count = floats;
    const int n = static_cast<int>(count);
    ways.push_back({"send_recv", 4 * count, limit, waited([&, count] {
                      comm.send_recv(send.data(), count, next, recv.data(), count, before, type);
                    }),
                    [&, n] {
                      MPI_Sendrecv(send.data(), n, MPI_FLOAT, next, 0, recv.data(), n, MPI_FLOAT,
                                   before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    }});
  }
  ways.push_back(
      {"barrier", 0, 2.8, waited([&] { comm.barrier(); }), [] { MPI_Barrier(MPI_COMM_WORLD); }});
  expect_beside_mpi(ways);
}

/// A product that does not commute, for operations of the program.
struct Matrix {
  double at[4];
  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    return {{a.at[0] * b.at[0] + a.at[1] * b.at[2], a.at[0] * b.at[1] + a.at[1] * b.at[3],
             a.at[2] * b.at[0] + a.at[3] * b.at[2], a.at[2] * b.at[1] + a.at[3] * b.at[3]}};
  }
};

TEST_F(Blocking, FunctionsStandBesideMpi) {
  Communicator comm = make_communicator(MPI_COMM_WORLD, {.backend = BackendKind::host});
  const auto op = HostOperation::of<Matrix>([](const Matrix& a, const Matrix& b) { return a * b; });
  MPI_Op mpi_op{};
  MPI_Datatype matrix{};
  MPI_Type_contiguous(4, MPI_DOUBLE, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(
      [](void* in, void* inout, int* count, MPI_Datatype*) {
        const auto* const lower = static_cast<const Matrix*>(in);
        auto* const higher = static_cast<Matrix*>(inout);
        for (int i = 0; i < *count; ++i) higher[i] = lower[i] * higher[i];
      },
      0, &mpi_op);
  constexpr std::size_t most = 4096;
  std::vector<Matrix> send(most, {{1, 0, 0, 1}}), recv(most);
  std::vector<Way> ways;
  for (const auto& [matrices, limit] :
       {std::pair{std::size_t{1}, 3.5}, {32, 3.2}, {128, 2.0}, {4096, 2.0}}) {
    const std::size_t count = matrices;
    const int n = static_cast<int>(count);
    ways.push_back(
        {"function", count * sizeof(Matrix), limit,
         [&, count] {
           comm.all_reduce(send.data(), recv.data(), count, op);
           comm.synchronize();
         },
         [&, n] { MPI_Allreduce(send.data(), recv.data(), n, matrix, mpi_op, MPI_COMM_WORLD); }});
  }
  expect_beside_mpi(ways);
  MPI_Op_free(&mpi_op);
  MPI_Type_free(&matrix);
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) { return plait::test::run_tests_of_processes(argc, argv); }
