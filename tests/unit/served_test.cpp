// Which calls each algorithm serves, as a table: a change of what one refuses, or that one is gone,
// must be meant. The other tests of algorithms ask them themselves what they serve.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"

namespace plait {
namespace {

/// Of 4 devices, or of one.
Topology topology(bool peer_access, int ranks = 4) {
  Topology topology;
  topology.backend = BackendKind::cuda;
  topology.ranks = ranks;
  topology.units = 132;
  topology.max_block_threads = 512;
  topology.peer_access = peer_access;
  topology.wide_packets = peer_access;
  topology.line_threads = topology.bulk_threads = peer_access ? 8 : 0;
  topology.peer_reads = peer_access;  // of CPU ranks alone
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

/// A letter for each of these that is served, else a dash: whole packs in Ordinary memory, in
/// Symmetric memory, there In place, in ordinary memory by One rank; an Element of a byte in
/// symmetric memory; whole packs in symmetric memory over a Bus.
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

TEST(Served, IsThis) {
  std::vector<std::string> rows;
  for (const auto& algorithm : Registry::instance().all())
    rows.push_back(fmt::format("{} {} {}", name_of(algorithm->collective()), algorithm->name(),
                               served(*algorithm)));
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(fmt::format("{}\n", fmt::join(rows, "\n")), expected);
}

}  // namespace
}  // namespace plait
