// The program's own memory of several ranks, as one of them reaches it.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/backend.hpp"

namespace plait {

class AttachedRange final : public SymmetricRange {
 public:
  /// Maps rank `peer`'s memory. Returns where it lies in this process, and keeps it mapped; null if
  /// the peer's own address serves.
  using Open = std::function<std::shared_ptr<std::byte>(std::size_t peer)>;
  /// Makes a table of distances that kernels can read.
  using MakeTable =
      std::function<std::shared_ptr<const std::ptrdiff_t>(const std::vector<std::ptrdiff_t>&)>;

  /// Memory of another node stands at this rank's own address. Addresses at equal distances, as any
  /// two are, need no table, which would cost each kernel a load.
  AttachedRange(int rank, std::span<const MemoryOffer> offers, const Open& open,
                const MakeTable& make_table)
      : rank_(rank) {
    const auto own = static_cast<std::size_t>(rank);
    for (std::size_t peer = 0; peer < offers.size(); ++peer) {
      const bool is_elsewhere = offers[peer].process == 0;
      auto memory = is_elsewhere || peer == own ? nullptr : open(peer);
      addresses_.push_back(memory != nullptr ? memory.get()
                                             : address_of(offers[is_elsewhere ? own : peer]));
      mappings_.push_back(std::move(memory));
    }
    std::vector<std::ptrdiff_t> distances;
    for (const std::byte* address : addresses_) distances.push_back(address - addresses_[own]);
    stride_ = distances.size() > 1 ? distances[1] - distances[0] : 0;
    for (std::size_t i = 1; i < distances.size(); ++i)
      if (distances[i] - distances[i - 1] != stride_) {
        table_ = make_table(distances);
        break;
      }
  }
  std::byte* address(int rank) const noexcept override {
    return addresses_[static_cast<std::size_t>(rank)];
  }
  WindowView view(int) const noexcept override {
    return {.own = address(rank_), .stride = stride_, .distances = table_.get(), .rank = rank_};
  }

 private:
  static std::byte* address_of(const MemoryOffer& offer) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what was offered
    return reinterpret_cast<std::byte*>(offer.address);
  }

  int rank_;
  std::vector<std::byte*> addresses_;
  std::vector<std::shared_ptr<std::byte>> mappings_;
  std::ptrdiff_t stride_ = 0;
  std::shared_ptr<const std::ptrdiff_t> table_;
};

}  // namespace plait
