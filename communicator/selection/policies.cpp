// Choices that have a name: those of other libraries, and those for equal bits.
#include <array>

#include "communicator/selection/rules.hpp"

namespace plait {

std::span<const Policy> policies() {
  static constexpr std::array<Policy, 4> all = {{
      {"yali", "0-67108865=flash;0-=stream",
       "YALI: Flash up to and with 64 MiB, Stream above (and where memory is not symmetric)"},
      {"p2p", "0-32769=recursive_doubling;32769-=ring",
       "the peer-to-peer design: recursive doubling up to and with 32 KiB, ring above"},
      {"reproducible", "",
       "floats reduced in rank order: the bits of a result depend on its terms alone"},
      {"reproducible_tree", "",
       "floats reduced in a binary tree: 1, 2, 4 and 8 ranks whose terms are sums of such a tree "
       "give the same bits"},
  }};
  return all;
}

SumOrder order_of(std::string_view policy) {
  if (policy == "reproducible") return SumOrder::ranks;
  return policy == "reproducible_tree" ? SumOrder::tree : SumOrder::any;
}
SumOrder order_of(const CommunicatorOptions& options) {
  if (options.reproducible_tree) return SumOrder::tree;
  return options.reproducible ? SumOrder::ranks : SumOrder::any;
}
std::string_view text_of(SumOrder order) {
  return order == SumOrder::tree ? "a tree" : "rank order";
}

}  // namespace plait
