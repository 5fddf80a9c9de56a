#include "communicator/fault/call_log.hpp"

#include <fmt/format.h>

#include <bit>

#include "algorithms/contract/collectives.hpp"
#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/observe/own_kernel_names.hpp"

namespace plait {
namespace {

/// Mixes a value into a hash. The order counts. Small values, equal values and zeros are the usual
/// ones and must not cancel each other out. (SplitMix64's step: one to one, and zero does not stay
/// zero.)
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
  return hash ^ hash >> 31;
}

/// Hashes up to four values; the order counts. Each value is multiplied by a different odd number,
/// so the multiplications overlap in time and equal values don't cancel each other out. (The
/// numbers are fractional parts of square roots of primes.)
std::uint64_t hash_of(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d = 0) {
  return mix(0, a * 0x6a09e667f3bcc909u + b * 0xbb67ae8584caa73bu + c * 0x3c6ef372fe94f82bu +
                    d * 0xa54ff53a5f1d36f1u);
}

constexpr int symmetric_bit = 40, in_place_bit = 41, root_bit = 44;

}  // namespace

std::uint64_t CallLogs::hash(std::uint64_t before, const Signature& common) {
  return mix(before, hash_of(common.count, common.facts, common.place, common.options));
}

Signature Signature::of(const Call& call, std::size_t algorithm, LaunchShape shape,
                        const Place& place) {
  const auto memory = std::uint64_t{call.symmetric} << symmetric_bit |
                      std::uint64_t{call.in_place} << in_place_bit |
                      static_cast<std::uint64_t>(call.order) << order_bit |
                      static_cast<std::uint64_t>(call.root) << root_bit;
  return {
      .count = call.count,
      .facts = static_cast<std::uint64_t>(call.collective) |
               static_cast<std::uint64_t>(call.type) << 8 |
               static_cast<std::uint64_t>(call.op) << 16 |
               static_cast<std::uint64_t>(algorithm) << 24 | memory,
      .place = hash_of(place.send_window, place.send_offset, place.recv_window, place.recv_offset),
      .options = hash_of(shape.blocks, shape.threads, std::bit_cast<std::uint64_t>(call.scale))};
}

std::string_view order_text(ArrayOrder order) {
  switch (order) {
    case ArrayOrder::unsaid:
      return "";
    case ArrayOrder::first_fastest:
      return ", first extent fastest (LayoutLeft)";
    case ArrayOrder::last_fastest:
      return ", last extent fastest (LayoutRight)";
    default:
      return ", extents in another order than LayoutLeft and LayoutRight";
  }
}

std::string Signature::describe(const std::vector<std::string>& algorithms) const {
  if (is_refused()) return "which was refused";
  if (algorithm() < algorithms.size() && is_own_kernel(algorithms[algorithm()]))
    return describe_own_kernel(count) + ", " +
           describe_extents(algorithms[algorithm()] == own_rows_name, OwnExtents::of(place));
  const char* const memory = (facts >> symmetric_bit & 1) == 0  ? ""
                             : (facts >> in_place_bit & 1) == 0 ? ", in symmetric memory"
                                                                : ", in place in symmetric memory";
  const CollectiveFacts what = facts_of(collective());
  // The caller has already written that a message is sent or received.
  const std::string verb =
      collective() == Collective::send_recv ? "" : fmt::format("{} of ", name_of(collective()));
  const std::string by = algorithm() == no_algorithm ? ""
                         : algorithm() < algorithms.size()
                             ? fmt::format(", by {}", algorithms[algorithm()])
                             : ", by an unknown algorithm";
  return fmt::format("{}{} {} elements{}{}{}{}{}", verb, count, name_of(type()),
                     what.reduces ? fmt::format(", {}", name_of(op())) : "",
                     what.rooted ? fmt::format(", root {}", facts >> root_bit) : "", memory,
                     order_text(order()), by);
}

}  // namespace plait
