// Which calls each algorithm serves. The other tests of algorithms ask the algorithm itself, so an
// algorithm that begins to refuse calls would just be tested less. A table of today's algorithms
// fails when one of them is gone or serves other calls than before. A new algorithm needs no row;
// the rules after the table hold for every algorithm of the registry.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"

namespace plait {
namespace {

/// Facts of CUDA devices: 4 of them, or one.
Topology topology(bool peer_access, int ranks = 4) {
  Topology topology;
  topology.backend = BackendKind::cuda;
  topology.ranks = ranks;
  topology.units = 132;
  topology.max_block_threads = 512;
  topology.peer_access = peer_access;
  topology.wide_packets = peer_access;
  topology.line_threads = topology.bulk_threads = peer_access ? 8 : 0;
  topology.peer_reads = peer_access;  // in truth only ranks on CPUs have them
  return topology;
}

enum class Place { ordinary, out_of_place, in_place };
Call call(Collective collective, DataType type, std::size_t count, Place place, int ranks) {
  return {.collective = collective,
          .type = type,
          .count = count,
          .symmetric = place != Place::ordinary,
          .in_place = place == Place::in_place,
          .parts = parts_of(collective, ranks)};
}

/// One letter per call, a dash where the algorithm refuses it:
///   O  whole packs in ordinary memory       I  the same as S, in place
///   S  whole packs in symmetric memory      1  the same as O, with one rank
///   E  one element of one byte in symmetric memory
///   B  the same as S, without peer access (over a bus)
std::string served(const Algorithm& algorithm) {
  const auto letter = [&](char name, const Topology& of, DataType type, std::size_t count,
                          Place place) {
    return algorithm.supports(call(algorithm.collective(), type, count, place, of.ranks), of) ? name
                                                                                              : '-';
  };
  const Topology near = topology(true), far = topology(false), one = topology(true, 1);
  return {letter('O', near, DataType::f32, 1024, Place::ordinary),
          letter('S', near, DataType::f32, 1024, Place::out_of_place),
          letter('I', near, DataType::f32, 1024, Place::in_place),
          letter('1', one, DataType::f32, 1024, Place::ordinary),
          letter('E', near, DataType::u8, 1, Place::out_of_place),
          letter('B', far, DataType::f32, 1024, Place::out_of_place)};
}

constexpr const char* expected = R"(all_gather direct_copy -SI-E-
all_gather direct_ll OSI1EB
all_gather direct_ll128 OSI1E-
all_gather direct_push OSI1EB
all_gather direct_put -SI--B
all_gather pull OSI1E-
all_reduce copy_engine -SI-E-
all_reduce flash -SI-EB
all_reduce flash_bulk -SI-E-
all_reduce halving_doubling OSI1EB
all_reduce oneshot_ll OSI1EB
all_reduce oneshot_ll128 OSI1E-
all_reduce pull OSI1E-
all_reduce recursive_doubling OSI1EB
all_reduce ring OSI1EB
all_reduce stream OSI1EB
all_reduce tree OSI1EB
all_reduce twoshot -SI-EB
all_reduce twoshot_ll OSI1EB
all_reduce twoshot_ll128 OSI1E-
all_reduce twoshot_ll16 OSI1E-
all_reduce twoshot_push -SI-EB
all_to_all direct_copy -S--E-
all_to_all direct_ll OSI1EB
all_to_all direct_ll128 OSI1E-
all_to_all direct_push OSI1EB
all_to_all direct_put -S---B
all_to_all pull OSI1E-
barrier barrier OSI1EB
broadcast chain OSI-EB
broadcast direct_copy -SI-E-
broadcast direct_ll OSI1EB
broadcast direct_ll128 OSI1E-
broadcast direct_push OSI1EB
broadcast direct_put -SI-EB
broadcast pull OSI1E-
broadcast relay_ll128 OSI1E-
gather direct_copy -SI-E-
gather direct_ll OSI1EB
gather direct_ll128 OSI1E-
gather direct_push OSI1EB
gather direct_put -SI-EB
gather pull OSI1E-
reduce chain OSI-EB
reduce direct_ll OSI1EB
reduce direct_ll128 OSI1E-
reduce direct_pull -SI-EB
reduce direct_push OSI1EB
reduce pull OSI1E-
reduce relay_ll128 OSI1E-
reduce_scatter direct_ll OSI1EB
reduce_scatter direct_ll128 OSI1E-
reduce_scatter direct_pull -SI--B
reduce_scatter direct_push OSI1EB
reduce_scatter pull OSI1E-
scatter direct_copy -SI-E-
scatter direct_ll OSI1EB
scatter direct_ll128 OSI1E-
scatter direct_push OSI1EB
scatter direct_put -SI-EB
scatter pull OSI1E-
send_recv pairwise_copy -SI-E-
send_recv pairwise_ll OSI1EB
send_recv pairwise_ll128 OSI1E-
send_recv pairwise_pull OSI1E-
send_recv pairwise_push OSI1EB
send_recv pairwise_put -SI-EB
)";

std::string row(const Algorithm& algorithm) {
  return fmt::format("{} {} {}", name_of(algorithm.collective()), algorithm.name(),
                     served(algorithm));
}

TEST(Served, IsWhatTheTableSays) {
  std::vector<std::string> rows;
  for (const auto& algorithm : Registry::instance().all()) rows.push_back(row(*algorithm));
  std::istringstream lines(expected);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(rows, testing::Contains(line));
}

/// Whole packs in symmetric memory are what every algorithm can do best.
TEST(Served, IncludesWholePacksInSymmetricMemory) {
  for (const auto& algorithm : Registry::instance().all())
    EXPECT_THAT(served(*algorithm), testing::HasSubstr("S")) << row(*algorithm);
}

/// The host target stands in for every other target, so an algorithm that refuses it would drop out
/// of all tests that run without a GPU.
TEST(Served, IncludesTheHostTarget) {
  const auto backend = open_backend(BackendKind::host, 0);
  backend->meet(std::array{backend->process_facts()});
  Topology host{backend->info().facts};
  host.backend = BackendKind::host;
  host.ranks = 2;
  host.peer_reads = true;  // a machine may forbid them: then `pull` is not there, rightly
  for (const auto& algorithm : Registry::instance().all()) {
    const Support support = algorithm->supports(
        call(algorithm->collective(), DataType::f32, 16, Place::out_of_place, host.ranks), host);
    EXPECT_TRUE(support) << algorithm->name() << ": " << support.reason();
  }
}

}  // namespace
}  // namespace plait
