// The algorithms of a communicator.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"

namespace plait {

/// Numbered alike on all ranks, those that no call may choose last. An algorithm that is registered
/// later serves later communicators.
class AlgorithmList {
 public:
  AlgorithmList() {
    for (const auto& algorithm : Registry::instance().all()) algorithms_.push_back(algorithm.get());
    choices_ = algorithms_.size();
    const Registry& registry = Registry::instance();
    for (const auto* other : {&registry.one_sided, &registry.own_kernels, &registry.own_rows})
      algorithms_.push_back(other->get());
  }
  /// Those that a call may choose.
  std::vector<const Algorithm*> choices() const {
    return {algorithms_.data(), algorithms_.data() + choices_};
  }
  const std::vector<const Algorithm*>& all() const noexcept { return algorithms_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Algorithm* algorithm : algorithms_) names.emplace_back(algorithm->name());
    return names;
  }
  std::size_t number_of(const Algorithm& algorithm) const {
    if (algorithms_[last_] != &algorithm)
      last_ = static_cast<std::size_t>(
          std::find(algorithms_.begin(), algorithms_.end(), &algorithm) - algorithms_.begin());
    return last_;
  }

 private:
  std::vector<const Algorithm*> algorithms_;
  std::size_t choices_ = 0;
  mutable std::size_t last_ = 0;  // the latest answer, because the next one is often the same
};

}  // namespace plait
