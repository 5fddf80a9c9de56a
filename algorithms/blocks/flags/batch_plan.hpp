// Assigns the messages of one launch to its blocks.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace plait {

struct BatchPlan {
  struct Place {
    std::size_t message;
    unsigned first_block, blocks;
  };
  std::vector<Place> places;  // one per message, in the order of first blocks
  unsigned blocks = 0;        // of the launch; none is idle
};

/// Spreads messages of `sizes` units over at most `blocks` blocks so that the fullest block has as
/// little work as possible. A message longer than a block's share has its blocks for itself;
/// shorter ones stay whole and share a block. `overhead`: the fixed cost of a message in its block,
/// in units. The plan depends on the arguments alone, so all ranks make the same one.
inline BatchPlan plan_batch(std::span<const std::size_t> sizes, unsigned blocks,
                            std::size_t overhead) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });

  // Places the messages, long ones first: each in the last block if it has room there, otherwise in
  // new ones. Returns the number of blocks; with null `places` it only counts.
  const auto place = [&](std::size_t share, std::vector<BatchPlan::Place>* places) {
    unsigned used = 0;
    std::size_t room = 0;  // in the last block
    for (const std::size_t message : order) {
      const std::size_t cost = sizes[message] + overhead;
      // A long message costs the overhead in each of its blocks.
      const auto own = static_cast<unsigned>(
          share > overhead ? (sizes[message] + share - overhead - 1) / (share - overhead)
                           : sizes[message]);
      if (own <= 1 && cost <= room) {
        room -= cost;
        if (places != nullptr) places->push_back({message, used - 1, 1});
        continue;
      }
      const unsigned taken = std::max(own, 1u);
      if (places != nullptr) places->push_back({message, used, taken});
      used += taken;
      room = taken == 1 && cost < share ? share - cost : 0;
      if (places == nullptr && used > blocks) break;
    }
    return used;
  };

  // Searches the least share with which the messages fit. The largest share puts all in one block.
  std::size_t least = overhead + 1, most = overhead + 1;
  for (const std::size_t size : sizes) most += size + overhead;
  while (least < most) {
    const std::size_t middle = least + (most - least) / 2;
    if (place(middle, nullptr) <= blocks) most = middle;
    else least = middle + 1;
  }
  BatchPlan plan;
  plan.places.reserve(sizes.size());
  plan.blocks = place(least, &plan.places);
  return plan;
}

}  // namespace plait
