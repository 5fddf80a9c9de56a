// Calls of libplait-pmpi that don't block, several at once. Run by mpi_pmpi_test.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "interop/pmpi/forms.hpp"
#include "support/data.hpp"

namespace plait::test {
namespace {

struct World {
  int rank = 0, size = 0;
  World() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
};
/// A duplicate of the world that has made a call that doesn't block, and then one that does, so
/// Plait serves both.
MPI_Comm served() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Barrier(comm);
  return comm;
}
int term(std::uint64_t call, int rank, std::size_t i) {
  return static_cast<int>(hash(call, static_cast<std::size_t>(rank), i) % 1000);
}

/// A sum over all ranks, with its data.
struct Sum {
  std::uint64_t call;
  std::vector<int> terms, sums;
  explicit Sum(std::uint64_t number, int rank) : call(number), sums(hash(number, 0, 1) % 3000) {
    for (std::size_t i = 0; i < sums.size(); ++i) terms.push_back(term(call, rank, i));
  }
  MPI_Request begin(MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_EQ(MPI_Iallreduce(terms.data(), sums.data(), static_cast<int>(terms.size()), MPI_INT,
                             MPI_SUM, comm, &request),
              MPI_SUCCESS);
    return request;
  }
  void check(int ranks) const {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      int expected = 0;
      for (int rank = 0; rank < ranks; ++rank) expected += term(call, rank, i);
      ASSERT_EQ(sums[i], expected) << "call " << call << ", element " << i;
    }
  }
};

/// Ends all requests, some by each function, those that fit being ended as they come.
void end_all(std::vector<MPI_Request> requests, std::uint64_t turn) {
  const int count = static_cast<int>(requests.size());
  std::vector<int> indices(requests.size());
  int number = 0;
  if (turn % 3 == 0) {
    for (int ended = 0; ended < count; ++ended)
      ASSERT_EQ(MPI_Waitany(count, requests.data(), &number, MPI_STATUS_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(MPI_Waitany(count, requests.data(), &number, MPI_STATUS_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(number, MPI_UNDEFINED);
  } else if (turn % 3 == 1) {
    for (int ended = 0; ended < count; ended += number)
      ASSERT_EQ(MPI_Waitsome(count, requests.data(), &number, indices.data(), MPI_STATUSES_IGNORE),
                MPI_SUCCESS);
    ASSERT_EQ(MPI_Waitsome(count, requests.data(), &number, indices.data(), MPI_STATUSES_IGNORE),
              MPI_SUCCESS);
    ASSERT_EQ(number, MPI_UNDEFINED);
  } else {
    ASSERT_EQ(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
  }
  for (const MPI_Request request : requests) ASSERT_EQ(request, MPI_REQUEST_NULL);
}

/// Ranks begin the calls of two communicators in different orders, with a blocking call and
/// messages between them, and end them in different orders.
TEST(PmpiRequests, ManyAreUnderWayAtOnce) {
  const World world;
  constexpr std::uint64_t rounds = 60;
  constexpr std::size_t calls = 6;
  MPI_Comm comms[] = {served(), served()};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<Sum> sums;
    for (std::size_t i = 0; i < 2 * calls; ++i) sums.emplace_back(round * 100 + i, world.rank);
    std::vector<MPI_Request> requests;
    const auto begin = [&](std::size_t which) {
      for (std::size_t i = 0; i < calls; ++i) {
        requests.push_back(sums[which * calls + i].begin(comms[which]));
        if (which == 1 || i != calls / 2) continue;
        int one = 1, all = 0;
        ASSERT_EQ(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comms[which]), MPI_SUCCESS);
        ASSERT_EQ(all, world.size);
      }
    };
    const std::size_t first = hash(round, static_cast<std::size_t>(world.rank), 7) % 2;
    begin(first);
    const int to = (world.rank + 1) % world.size, from = (world.rank + world.size - 1) % world.size;
    const int sent = term(round, world.rank, 99);
    int received = -1;
    MPI_Request message = MPI_REQUEST_NULL;
    MPI_Irecv(&received, 1, MPI_INT, from, 3, MPI_COMM_WORLD, &message);
    requests.push_back(message);
    MPI_Isend(&sent, 1, MPI_INT, to, 3, MPI_COMM_WORLD, &message);
    requests.push_back(message);
    begin(1 - first);
    for (std::size_t i = requests.size(); i > 1; --i)
      std::swap(requests[i - 1],
                requests[hash(round, static_cast<std::size_t>(world.rank), i) % i]);
    end_all(requests, hash(round, static_cast<std::size_t>(world.rank), 8));
    ASSERT_EQ(received, term(round, from, 99));
    for (const Sum& sum : sums) sum.check(world.size);
  }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

/// Each start takes what lies in the buffers then, also through a type with gaps, which the program
/// has freed.
TEST(PmpiRequests, PersistentCallsTakeTheDataOfEachStart) {
  const World world;
  MPI_Comm comm = served();
  constexpr int pairs = 50;
  const std::size_t ranks = static_cast<std::size_t>(world.size);
  MPI_Datatype every_second = MPI_DATATYPE_NULL;
  MPI_Type_vector(pairs, 1, 2, MPI_INT, &every_second);
  MPI_Type_commit(&every_second);
  std::vector<int> mine(2 * pairs), all(ranks * pairs), terms(pairs), sums(pairs);
  MPI_Request requests[2];
  PLAIT_INIT(Allgather)
  (mine.data(), 1, every_second, all.data(), pairs, MPI_INT, comm, MPI_INFO_NULL, &requests[0]);
  PLAIT_INIT(Allreduce)
  (terms.data(), sums.data(), pairs, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[1]);
  MPI_Type_free(&every_second);
  int flag = 0;
  ASSERT_EQ(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(flag, 1) << "none was started";
  for (std::uint64_t round = 0; round < 40; ++round) {
    for (std::size_t i = 0; i < pairs; ++i) {
      mine[2 * i] = term(round, world.rank, i);
      terms[i] = term(round + 500, world.rank, i);
    }
    ASSERT_EQ(MPI_Startall(2, requests), MPI_SUCCESS);
    ASSERT_EQ(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    for (std::size_t i = 0; i < pairs; ++i) {
      int sum = 0;
      for (int rank = 0; rank < world.size; ++rank) {
        ASSERT_EQ(all[static_cast<std::size_t>(rank) * pairs + i], term(round, rank, i));
        sum += term(round + 500, rank, i);
      }
      ASSERT_EQ(sums[i], sum);
    }
  }
  for (MPI_Request& request : requests) {
    ASSERT_NE(request, MPI_REQUEST_NULL);
    MPI_Request_free(&request);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
  }
  MPI_Comm_free(&comm);
}

/// A communicator may be freed while its calls are under way.
TEST(PmpiRequests, EndAfterTheirCommunicator) {
  const World world;
  for (std::uint64_t round = 0; round < 10; ++round) {
    MPI_Comm comm = served();
    Sum sum(round, world.rank), late(round + 50, world.rank);
    std::vector<MPI_Request> requests{sum.begin(comm), late.begin(comm)};
    MPI_Comm_free(&comm);
    end_all(requests, round);
    sum.check(world.size);
    late.check(world.size);
  }
}

/// A rank that waits for a message, and not in the call, does not keep the others from it.
TEST(PmpiRequests, BeginWithoutTheOthers) {
  const World world;
  MPI_Comm comm = served();
  MPI_Request request = MPI_REQUEST_NULL;
  int word = 0;
  for (int round = 0; round < 20; ++round) {
    const int first = round % world.size;
    if (world.rank == first) {
      MPI_Ibarrier(comm, &request);
      for (int rank = 0; rank < world.size; ++rank)
        if (rank != first) MPI_Send(&word, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&word, 1, MPI_INT, first, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Ibarrier(comm, &request);
    }
    ASSERT_EQ(end_somehow(request), MPI_SUCCESS);
  }
  MPI_Comm_free(&comm);
}

}  // namespace
}  // namespace plait::test
