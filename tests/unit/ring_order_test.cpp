// The search for the order of the ring, with the links of machines and of none.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "communicator/resources/ring.hpp"
#include "support/data.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

using Order = std::vector<int>;

Order by_number(std::size_t n) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

LinkMatrix all_pairs(std::size_t n, int links) { return LinkMatrix(n, std::vector<int>(n, links)); }

/// Sets the links of pairs that are written as "03 12".
void link(LinkMatrix& matrix, int links, const std::string& pairs) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 3) {
    const auto a = static_cast<unsigned>(pairs[i] - '0'),
               b = static_cast<unsigned>(pairs[i + 1] - '0');
    matrix[a][b] = matrix[b][a] = links;
  }
}

/// The links of the narrowest pair of neighbours, and of all.
using Width = std::pair<int, int>;
Width width(const Order& order, const LinkMatrix& links) {
  std::vector<int> steps;
  for (std::size_t i = 0; i < order.size(); ++i)
    steps.push_back(links[static_cast<unsigned>(order[i])]
                         [static_cast<unsigned>(order[(i + 1) % order.size()])]);
  return {*std::ranges::min_element(steps), std::accumulate(steps.begin(), steps.end(), 0)};
}

/// Tries every ring.
Width best(const LinkMatrix& links) {
  Order order = by_number(links.size());
  Width most = width(order, links);
  while (std::next_permutation(order.begin() + 1, order.end()))
    most = std::max(most, width(order, links));
  return most;
}

struct Machine {
  const char* name;
  Order order;
  std::vector<std::pair<int, const char*>> links;  // all other pairs have none
};
const std::vector<Machine> machines{
    {"DGX-1",
     {0, 3, 2, 1, 5, 6, 7, 4},
     {{2, "03 04 12 15 23 47 56 67"}, {1, "01 02 13 26 37 45 46 57"}}},
    {"bridges of 4 + 4", by_number(8), {{1, "01 02 03 12 13 23 45 46 47 56 57 67"}}},
    {"two sockets, devices numbered by turns",
     {0, 2, 4, 6, 1, 3, 5, 7},
     {{1, "02 04 06 24 26 46 13 15 17 35 37 57"}}},
    {"bridged pairs", {0, 4, 1, 5, 2, 6, 3, 7}, {{4, "04 15 26 37"}}},
    {"packages of two dies, as MI250 has them",
     {0, 1, 3, 2, 4, 5, 7, 6},
     {{4, "01 23 45 67"}, {2, "06 17 24 35"}, {1, "02 13 46 57 15 37"}}}};

TEST(RingOrder, IsTheBestOfKnownMachines) {
  for (const Machine& machine : machines) {
    LinkMatrix links = all_pairs(8, 0);
    for (const auto& [count, pairs] : machine.links) link(links, count, pairs);
    EXPECT_EQ(ring_order(links), machine.order) << machine.name;
    EXPECT_EQ(width(machine.order, links), best(links)) << machine.name;
  }
}

TEST(RingOrder, AvoidsABrokenLink) {
  for (unsigned a = 0; a < 8; ++a)
    for (unsigned b = 0; b < a; ++b) {
      LinkMatrix mesh = all_pairs(8, 1);
      mesh[a][b] = 0;  // one end says so
      const Order order = ring_order(mesh);
      mesh[b][a] = 0;
      EXPECT_EQ(width(order, mesh), Width(1, 8));
      const bool neighbours = a - b == 1 || a - b == 7;
      EXPECT_EQ(order == by_number(8), !neighbours) << a << " and " << b;
    }
}

TEST(RingOrder, IsThatOfNumbersWhereNoOtherIsBetter) {
  for (const int links : {0, 1, 18}) {  // PCIe, MI300X's mesh, a switch
    EXPECT_EQ(ring_order(all_pairs(8, links)), by_number(8));
  }
  LinkMatrix unknown = all_pairs(8, 1);
  link(unknown, 4, "02 46");
  EXPECT_NE(ring_order(unknown), by_number(8));
  unknown[5][3] = -1;
  EXPECT_EQ(ring_order(unknown), by_number(8));
  for (const std::size_t n : {0u, 1u, 2u, 3u, 17u}) {
    LinkMatrix links = all_pairs(n, 0);
    if (n > 2) links[0][2] = links[2][0] = 1;
    EXPECT_EQ(ring_order(links), by_number(n));
  }
}

TEST(RingOrder, IsTheBestOfAll) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::size_t n = 4 + seed % 4;
    LinkMatrix links = all_pairs(n, 0);
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < a; ++b)
        links[a][b] = links[b][a] = static_cast<int>(hash(seed, a, b) % 4);
    const Order order = ring_order(links);
    EXPECT_TRUE(std::ranges::is_permutation(order, by_number(n)));
    EXPECT_EQ(width(order, links), best(links)) << seed;
    if (width(by_number(n), links) == best(links)) {
      EXPECT_EQ(order, by_number(n)) << seed;
    }
  }
}

TEST(RingOrder, IsFoundAmongSixteen) {
  LinkMatrix links = all_pairs(16, 1);
  for (unsigned p = 0; p < 16; ++p) {
    const unsigned a = p * 7 % 16, b = (p + 1) * 7 % 16;
    links[a][b] = links[b][a] = 2;
  }
  EXPECT_EQ(width(ring_order(links), links), Width(2, 32));
}

TEST(RingOrder, IsReadFromText) {
  EXPECT_EQ(parse_ring("0,2, 1,3"), (Order{0, 2, 1, 3}));
  for (const char* bad : {"0,2,1,1", "1,2,3", "0;1", "0,1,", "0,-1", "ring", "0,1.0"})
    expect_invalid([&] { parse_ring(bad); }, "PLAIT_RING=", bad);
}

}  // namespace
}  // namespace plait::test
