// Sums of f32 that are quantized on their way, and how far they may be from exact ones.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/data.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {

/// One all_reduce of f32, and what its result must be.
class QuantizedSum {
 public:
  /// `terms`: value i of a rank's input.
  template <class Terms>
  QuantizedSum(Communicator& comm, Arena& arena, const std::vector<int>& nodes, std::size_t count,
               ReduceOp op, const char* algorithm, bool in_place, Terms terms)
      : comm_(comm), algorithm_(algorithm), result_(count), partials_(nodes.back() + 1) {
    DeviceArray& send = in_place ? arena.recv : arena.send;
    DeviceArray& recv = arena.recv;
    recv.place(4, count * sizeof(float));  // of no alignment but that of floats
    send.place(4, count * sizeof(float));
    std::vector<float> own(count);
    for (std::size_t i = 0; i < count; ++i) own[i] = terms(comm.rank(), i);
    std::memcpy(send.image(), own.data(), count * sizeof(float));
    if (!in_place) recv.upload({});
    send.upload({});
    comm.all_reduce(send.device(), recv.device(), count, DataType::f32, op, {},
                    {.algorithm = algorithm});
    recv.download({});
    comm.synchronize();
    EXPECT_EQ(recv.damage(), "");
    std::memcpy(result_.data(), recv.image(), count * sizeof(float));
    const double divisor = op == ReduceOp::avg ? comm.size() : 1;
    for (auto& partial : partials_) partial.resize(count);
    for (int rank = 0; rank < comm.size(); ++rank)
      for (std::size_t i = 0; i < count; ++i)
        partials_[static_cast<std::size_t>(nodes[static_cast<std::size_t>(rank)])][i] +=
            terms(rank, i) / divisor;
  }

  const std::vector<float>& result() const { return result_; }

  void expect_same_bits() const {
    std::uint64_t hash = 0;
    for (const float x : result_)
      hash = hash * 0x9e3779b97f4a7c15u + std::bit_cast<std::uint32_t>(x) + 1;
    for (const std::uint64_t other : comm_.bootstrap().all_gather(hash))
      EXPECT_EQ(other, hash) << algorithm_ << ": two ranks have different bits";
  }

  /// The bound in algorithms/nodes/rails/quantized_kernel.hpp, with as much again for f32.
  void expect_near() const {
    const std::string name = algorithm_;
    const bool scaled = name == "quantized_int8";
    const double unit = name == "quantized_bf16" ? 0x1p-8 : 0x1p-11;
    double largest_error = 0;
    for (std::size_t i = 0; i < result_.size(); ++i) {
      double exact = 0, bound = 0;
      for (const auto& partial : partials_) {
        exact += partial[i];
        bound += scaled ? largest_near(partial, i) / 254 : unit * std::abs(partial[i]);
      }
      bound += scaled ? largest_near(result_, i) / 254 : unit * std::abs(exact);
      const double error = std::abs(result_[i] - exact);
      largest_error = std::max(largest_error, error);
      ASSERT_LE(error, bound * 1.01 + 1e-6)
          << algorithm_ << ": element " << i << " is " << result_[i] << ", not " << exact;
    }
    if (result_.size() >= 100 && comm_.size() > 1) {
      EXPECT_GT(largest_error, 1e-5) << algorithm_ << " rounds nothing";
    }
  }

 private:
  /// A unit may begin at any element, so this looks at all values that may share its scale.
  template <class Values>
  static double largest_near(const Values& values, std::size_t i) {
    constexpr std::size_t reach = 127;
    double largest = 0;
    for (std::size_t j = i < reach ? 0 : i - reach; j < values.size() && j <= i + reach; ++j)
      largest = std::max(largest, std::abs(static_cast<double>(values[j])));
    return largest;
  }

  Communicator& comm_;
  const char* algorithm_;
  std::vector<float> result_;
  std::vector<std::vector<double>> partials_;  // of each node
};

inline constexpr const char* quantized[] = {"quantized_bf16", "quantized_f16", "quantized_int8"};

/// For each rank, the number of its partial sum: that of its node or, where all ranks are on one,
/// its own.
inline std::vector<int> partial_sums(std::vector<int> nodes) {
  if (nodes.back() == 0) std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

/// Sums and averages by each of them, of up to `most` values. `nodes`: the node of each rank.
/// Collective.
inline void check_quantized(Communicator& comm, Arena& arena, const std::vector<int>& nodes,
                            std::size_t most) {
  for (const char* const algorithm : quantized)
    for (const std::size_t count : {std::size_t{1}, std::size_t{127}, std::size_t{1000}, most})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
        for (const bool in_place : {false, true}) {
          // Magnitudes from 1 to 1000, which change slowly, so that scales differ.
          const auto term = [&](int rank, std::size_t i) {
            const auto bits = hash(count, static_cast<std::uint64_t>(rank), i);
            const double unit = static_cast<double>(bits % 100'003) / 5e4 - 1;
            return static_cast<float>(unit * std::pow(10.0, (i / 500) % 4));
          };
          const QuantizedSum sum(comm, arena, partial_sums(nodes), count, op, algorithm, in_place,
                                 term);
          sum.expect_same_bits();
          sum.expect_near();
        }
}

}  // namespace plait::test
