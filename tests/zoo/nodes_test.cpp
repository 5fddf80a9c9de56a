// Ranks as threads that believe to be on several nodes: kernels, proxies and sockets in one
// process, so that ThreadSanitizer sees them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/pretend_nodes.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

/// The number of ranks on each node.
using Sizes = std::vector<int>;

class SeveralNodes : public testing::TestWithParam<Sizes> {
 protected:
  void run(const std::function<void(Communicator&, Arena&)>& body) {
    std::vector<int> nodes;
    for (std::size_t node = 0; node < GetParam().size(); ++node)
      nodes.insert(nodes.end(), static_cast<std::size_t>(GetParam()[node]), static_cast<int>(node));
    nodes_ = nodes;
    const int ranks = static_cast<int>(nodes.size());
    PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
    auto bootstraps = make_thread_bootstraps(ranks);
    on_threads(ranks, [&](int rank) {
      auto& bootstrap = bootstraps[static_cast<std::size_t>(rank)];
      bootstrap->set_timeout(patience);
      Communicator comm = Communicator::create(
          std::make_unique<PretendNodes>(std::move(bootstrap), nodes), test_options());
      Arena arena(comm, std::size_t{8} << 20);
      body(comm, arena);
    });
  }
  static bool is_even() {
    return std::all_of(GetParam().begin(), GetParam().end(),
                       [](int size) { return size == GetParam().front(); });
  }
  std::vector<int> nodes_;  // of each rank
};

std::vector<Subject> subjects() {
  std::vector<Subject> all = other_algorithms();
  for (const std::string& name : all_reduce_algorithms()) all.emplace_back(name);
  return all;
}

/// Large enough for chunks that don't travel in frames, and for several of them.
constexpr std::size_t many = under_tsan ? 100'003 : 400'003;

TEST_P(SeveralNodes, EveryAlgorithmGivesExactResults) {
  run([](Communicator& comm, Arena& arena) {
    for (const Subject& subject : subjects())
      for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, many})
        for (const bool in_place : {false, true})
          if (!check(comm, arena,
                     subject.of({.type = DataType::i32, .count = count, .in_place = in_place})))
            return;
  });
}

TEST_P(SeveralNodes, CallsFollowOneAnother) {
  run([](Communicator& comm, Arena& arena) {
    for (const char* const algorithm : {"rails", "leaders", "ring", "stream"})
      check_repeated_in_place(comm, arena, 1000, under_tsan ? 30 : 100, {.algorithm = algorithm});
    if (is_even())
      check_repeated_in_place(comm, arena, 1000, under_tsan ? 30 : 100,
                              {.algorithm = "rails_oneshot"});
  });
}

TEST_P(SeveralNodes, GraphsAreReplayed) {
  run([](Communicator& comm, Arena& arena) {
    for (const char* algorithm : {"rails", "leaders", "tree"})
      check(comm, arena,
            {.algorithm = algorithm, .type = DataType::i64, .count = 5000, .way = Way::captured});
  });
}

TEST_P(SeveralNodes, BarriersWaitForAll) {
  run([](Communicator& comm, Arena&) {
    for (int i = 0; i < 50; ++i) comm.barrier();
    comm.synchronize();
  });
}

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

  /// The bound in algorithms/nodes/quantized/kernel.hpp, with as much again for f32.
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
    if (result_.size() >= 100) {
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

constexpr const char* quantized[] = {"quantized_bf16", "quantized_f16", "quantized_int8"};

TEST_P(SeveralNodes, QuantizedSumsKeepTheirBound) {
  run([this](Communicator& comm, Arena& arena) {
    for (const char* const algorithm : quantized)
      for (const std::size_t count : {1u, 127u, 1000u, under_tsan ? 9001u : 40'003u})
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
          for (const bool in_place : {false, true}) {
            // Magnitudes from 1 to 1000, which change slowly, so that scales differ.
            const QuantizedSum sum(
                comm, arena, nodes_, count, op, algorithm, in_place, [&](int rank, std::size_t i) {
                  const auto bits = hash(count, static_cast<std::uint64_t>(rank), i);
                  const double unit = static_cast<double>(bits % 100'003) / 5e4;
                  return static_cast<float>((unit - 1) * std::pow(10.0, (i / 500) % 4));
                });
            sum.expect_same_bits();
            sum.expect_near();
          }
  });
}

TEST_P(SeveralNodes, QuantizedSumsOfWhatIsNoNumber) {
  run([this](Communicator& comm, Arena& arena) {
    constexpr std::size_t count = 5000, where = 2500;
    for (const char* const algorithm : quantized)
      for (const float special : {std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN(), 1e30f, 1e-38f}) {
        const QuantizedSum sum(
            comm, arena, nodes_, count, ReduceOp::sum, algorithm, false,
            [&](int rank, std::size_t i) { return i == where && rank == 0 ? special : 0.0f; });
        sum.expect_same_bits();
        const std::string name = algorithm;
        for (std::size_t i = 0; i < count; ++i) {
          const float x = sum.result()[i];
          const bool is_near = i + 127 >= where && i <= where + 127;
          if (i == where && special == 1e-38f) {
            EXPECT_LE(x, special * 1.01f);
          } else if (i == where && name == "quantized_f16" && !std::isnan(special)) {
            EXPECT_EQ(x, std::numeric_limits<float>::infinity());
          } else if (i == where && special == 1e30f) {
            EXPECT_NEAR(x, special, special / 100);
          } else if (i == where && std::isinf(special) && name == "quantized_bf16") {
            EXPECT_EQ(x, special);
          } else if (i == where) {
            EXPECT_TRUE(std::isnan(x)) << name << " makes " << special << " to " << x;
          } else if (!is_near || name != "quantized_int8" || std::isfinite(special)) {
            EXPECT_EQ(x, 0) << name << ": element " << i << " of a sum with " << special;
          }
        }
      }
  });
}

INSTANTIATE_TEST_SUITE_P(All, SeveralNodes,
                         testing::Values(Sizes{1, 1}, Sizes{2, 2}, Sizes{2, 1}, Sizes{1, 1, 1, 1},
                                         Sizes{1, 3}),
                         [](const auto& instance) {
                           std::string name;
                           for (const int size : instance.param) name += "x" + std::to_string(size);
                           return "nodes" + name;
                         });

}  // namespace
}  // namespace plait::test
