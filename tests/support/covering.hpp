// Fewer cases than a cross product has, but with all pairs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace plait::test {

/// One level of each factor, by number.
using Levels = std::vector<std::size_t>;

/// Of the combinations that `fits` accepts, with `sizes[f]` levels of factor f, so many that any
/// two levels that meet in one of them meet in the result; with PLAIT_TEST_FULL=1 all. The seed
/// says which levels of the other factors a pair meets with.
std::vector<Levels> covering(
    const Levels& sizes, std::uint64_t seed,
    const std::function<bool(const Levels&)>& fits = [](const Levels&) { return true; });

/// `count` or, with PLAIT_TEST_FULL=1, `full`.
std::size_t unless_full(std::size_t count, std::size_t full);

}  // namespace plait::test
