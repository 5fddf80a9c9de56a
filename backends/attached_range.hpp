// The program's own memory of several ranks, as one of them reaches it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/backend.hpp"

namespace plait {

class AttachedRange final : public SymmetricRange {
 public:
  /// Makes a table of distances that kernels can read.
  using MakeTable =
      std::function<std::shared_ptr<const std::ptrdiff_t>(const std::vector<std::ptrdiff_t>&)>;

  /// `addresses`: of every rank's memory in this process. `mappings`: what keeps them mapped.
  /// Addresses at equal distances, as any two are, need no table, which would cost each kernel a
  /// load.
  AttachedRange(int rank, std::vector<std::byte*> addresses,
                std::vector<std::shared_ptr<const void>> mappings, const MakeTable& make_table)
      : rank_(rank), addresses_(std::move(addresses)), mappings_(std::move(mappings)) {
    std::vector<std::ptrdiff_t> distances;
    for (const std::byte* address : addresses_)
      distances.push_back(address - addresses_[static_cast<std::size_t>(rank)]);
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
  int rank_;
  std::vector<std::byte*> addresses_;
  std::vector<std::shared_ptr<const void>> mappings_;
  std::ptrdiff_t stride_ = 0;
  std::shared_ptr<const std::ptrdiff_t> table_;
};

}  // namespace plait
