// The zoo with ranks that are processes. To be run by mpirun with any number of them, once as it is
// (the library initialises MPI) and once with the argument --caller-initializes-mpi.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <string>
#include <vector>

#include "plait/mpi.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/mpi_world.hpp"

namespace plait::test {
namespace {

class MpiZoo : public testing::TestWithParam<std::string> {
 protected:
  Communicator& comm() { return World::instance()->comm; }
  Arena& arena() { return World::instance()->arena; }
};
INSTANTIATE_TEST_SUITE_P(All, MpiZoo, testing::ValuesIn(all_reduce_algorithms()),
                         [](const auto& test) { return test.param; });

TEST_P(MpiZoo, AllTypesAndOperations) {
  check_all_types_and_operations(comm(), arena(), GetParam(), {1, 75});
}

TEST_P(MpiZoo, AllCounts) {
  check_all_counts(comm(), arena(), GetParam(), {DataType::bf16, DataType::f32});
}

TEST_P(MpiZoo, Large) { check_large(comm(), arena(), GetParam(), 400000); }

TEST_P(MpiZoo, LaunchShapes) { check_launch_shapes(comm(), arena(), GetParam()); }

TEST_P(MpiZoo, BackToBackCalls) {
  check_repeated_in_place(comm(), arena(), 501, 200, {.algorithm = GetParam()});
}

class MpiCollectives : public testing::TestWithParam<Subject> {};
INSTANTIATE_TEST_SUITE_P(All, MpiCollectives, testing::ValuesIn(other_algorithms()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", name_of(test.param.collective),
                                              test.param.algorithm);
                         });

TEST_P(MpiCollectives, AllCounts) {
  World& world = *World::instance();
  check_all_counts(world.comm, world.arena, GetParam(), {DataType::bf16, DataType::f64});
  check_large(world.comm, world.arena, GetParam(), 400000);
}

/// Rank 0 has one NaN of another bit pattern, at the beginning, at the end, or none. Between
/// processes a scan may take the only term of a rank from where it lies.
template <class T, class Bits>
void check_scan_of_nan(World& world, const Subject& subject, DataType type, Bits wanted) {
  constexpr std::size_t count = 5003;
  Communicator& comm = world.comm;
  DeviceArray &send = world.arena.send, &recv = world.arena.recv;
  const int terms = terms_of(subject.collective, comm.rank(), comm.size());
  for (const std::size_t nan : {std::size_t{0}, count - 1, count}) {
    send.place(0, count * sizeof(T));
    recv.place(0, count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      const T x = static_cast<T>(i % 100 + static_cast<std::size_t>(comm.rank()));
      std::memcpy(send.image() + i * sizeof x, &x, sizeof x);
    }
    if (const Bits odd = wanted - 5; comm.rank() == 0 && nan < count)
      std::memcpy(send.image() + nan * sizeof odd, &odd, sizeof odd);
    send.upload({});
    recv.upload({});
    comm.enqueue({.collective = subject.collective, .type = type, .count = count}, send.device(),
                 recv.device(), {}, {.algorithm = subject.algorithm});
    recv.download({});
    comm.synchronize();
    for (std::size_t i = 0; i < count && terms != 0; ++i) {
      Bits got{}, expected = wanted;
      if (i != nan) {
        T sum{};
        for (int rank = 0; rank < terms; ++rank)
          sum += static_cast<T>(i % 100 + static_cast<std::size_t>(rank));
        std::memcpy(&expected, &sum, sizeof sum);
      }
      std::memcpy(&got, recv.image() + i * sizeof got, sizeof got);
      ASSERT_EQ(got, expected) << name_of(type) << ", element " << i << ", a NaN at " << nan;
    }
  }
}

TEST_P(MpiCollectives, ScansOfNan) {
  World& world = *World::instance();
  if (!is_scan(GetParam().collective) || world.comm.size() == 1) return;  // nothing to take
  check_scan_of_nan<float>(world, GetParam(), DataType::f32, 0x7fffffffu);
  check_scan_of_nan<double>(world, GetParam(), DataType::f64, 0x7fffffffffffffffull);
}

TEST(MpiCommunicator, KnowsTheWorld) {
  int rank = -1, size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(World::instance()->comm.rank(), rank);
  EXPECT_EQ(World::instance()->comm.size(), size);
}

TEST(MpiCommunicator, OverAPartOfTheWorld) {
  Communicator& world = World::instance()->comm;
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world.rank() % 2, -world.rank(), &part);
  {
    Communicator comm = make_communicator(part, test_options());
    MPI_Comm_free(&part);  // it was duplicated
    EXPECT_EQ(comm.size(), (world.size() + (world.rank() % 2 == 0 ? 1 : 0)) / 2);
    Arena arena(comm);
    for (const std::string& algorithm : all_reduce_algorithms())
      for (std::uint64_t i = 0; i < 5; ++i) {
        check(comm, arena,
              {.algorithm = algorithm,
               .type = DataType::bf16,
               .count = 2000 + i,
               .symmetric = true,
               .seed = i});
        check(world, World::instance()->arena,
              {.algorithm = algorithm, .count = 100 + i, .symmetric = true, .seed = i});
      }
    world.bootstrap().barrier();
  }
}

/// A sender that receives nothing still needs the receive buffer, because it finds the address of
/// its peer's by it.
TEST(MpiCommunicator, AGroupKeepsTheReceiversMemory) {
  Communicator& comm = World::instance()->comm;
  constexpr std::size_t count = 100000;
  const int last = comm.size() - 1;
  if (last == 0) GTEST_SKIP() << "needs two ranks";
  const Case put{.collective = Collective::send_recv,
                 .algorithm = "pairwise_put",
                 .type = DataType::i32,
                 .count = count,
                 .symmetric = true};
  if (!is_served(comm, put)) GTEST_SKIP() << "pairwise_put is for one node";
  const auto sent = comm.allocate<int>(count), kept = comm.allocate<int>(count);
  std::vector<int> values(count), result(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = element<int>(1, comm.rank(), i, ReduceOp::max);
  comm.copy(sent.data(), values.data(), count * sizeof(int));
  {
    const Group group;
    const auto received = comm.allocate<int>(count);
    const bool sends = comm.rank() == 0, receives = comm.rank() == last;
    comm.send_recv(sent.data(), sends ? count : 0, last, received.data(), receives ? count : 0, 0,
                   DataType::i32, {}, {.algorithm = "pairwise_put", .symmetric = true});
    comm.all_reduce(sent.data(), kept.data(), count, DataType::i32, ReduceOp::max);
  }
  comm.copy(result.data(), kept.data(), count * sizeof(int));
  comm.synchronize();
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(result[i], expected<int>(1, comm.size(), i, ReduceOp::max, 1)) << i;
}

TEST(MpiCommunicator, UnequalSizesAreRefusedOnAllRanks) {
  Communicator& comm = World::instance()->comm;
  if (comm.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  std::string text;
  try {
    comm.allocate<int>(comm.rank() == 1 ? 5u : 6u);
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), "mismatch");
    text = error.what();
  }
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  check(comm, World::instance()->arena, {.algorithm = {}, .count = 9});
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) { return plait::test::run_tests_in_world(argc, argv); }
