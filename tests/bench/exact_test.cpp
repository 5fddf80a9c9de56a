// The exact test data of plait-bench: the check finds what is right, and every single mistake.
#include "bench/exact/exact.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/exact_trial.hpp"
#include "plait/types.hpp"
#include "support/ranks.hpp"

namespace plait::exact {
namespace {

/// Whether the ranks' averages have an error bound.
bool has_tolerance(DataType type, ReduceOp op, int ranks) {
  const bool wide = is_complex(type) || type == DataType::f32 || type == DataType::f64;
  return op == ReduceOp::avg && wide && (ranks & (ranks - 1)) != 0;
}

class Exact : public testing::TestWithParam<DataType> {
 protected:
  /// `body(trial, op, ranks)` for all operations of the type. It is a template of the element type.
  template <class Body>
  void for_each_trial(const Body& body) const {
    test::run_ranks(1, [&](Communicator& comm, int) {
      for (int i = 0; i < reduce_op_count; ++i)
        for (const int ranks : {1, 2, 3, 8, 20}) {
          const auto op = static_cast<ReduceOp>(i);
          if (!is_reduced(GetParam(), op)) continue;
          SCOPED_TRACE(fmt::format("{} of {} ranks", name_of(op), ranks));
          test::dispatch_all(GetParam(), [&]<class T>() {
            using Element = std::conditional_t<std::is_same_v<T, test::Truth>, std::uint8_t, T>;
            Trial<Element> trial(backend_of(comm), GetParam(), op, ranks);
            body(trial, op, ranks);
          });
        }
    });
  }
};
std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int type = 0; type < data_type_count; ++type) types.push_back(static_cast<DataType>(type));
  return types;
}
INSTANTIATE_TEST_SUITE_P(All, Exact, testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Exact, TakesTheRightResult) {
  for_each_trial([](auto& trial, ReduceOp, int ranks) {
    EXPECT_EQ(trial.wrong(trial.result()), 0U);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(trial.changed(trial.inputs()[static_cast<std::size_t>(rank)], rank), 0U);
  });
}

TEST_P(Exact, SeesEveryByteOfAResult) {
  for_each_trial([](auto& trial, ReduceOp op, int ranks) {
    using T = typename std::decay_t<decltype(trial)>::Elements::value_type;
    // Within the error bound the lowest bits of a part may differ.
    const unsigned char bits = has_tolerance(GetParam(), op, ranks) ? 0x80 : 0x01;
    for (std::size_t byte = 0; byte < meaning<T>; ++byte) {
      const std::size_t part = is_complex(GetParam()) ? sizeof(T) / 2 : sizeof(T);
      if (bits == 0x80 && byte % part + 1 != part) continue;  // the signs
      auto result = trial.result();
      flip(&result[byte], byte, bits);
      flip(&result[trial.count - 1], byte, bits);
      EXPECT_EQ(trial.wrong(result), 2U) << "byte " << byte;
    }
  });
}

TEST_P(Exact, SeesEveryByteOfAnInput) {
  for_each_trial([](auto& trial, ReduceOp, int ranks) {
    for (std::size_t byte = 0; byte < sizeof(trial.inputs()[0][0]); ++byte) {
      auto input = trial.inputs().back();
      flip(&input[byte], byte, 1);  // padding, too: elements that are moved keep it
      EXPECT_EQ(trial.changed(input, ranks - 1), 1U) << "byte " << byte;
    }
  });
}

TEST_P(Exact, SeesALostTerm) {
  for_each_trial([](auto& trial, ReduceOp op, int ranks) {
    for (int lost = 0; lost < ranks && ranks > 1; ++lost) {
      auto inputs = trial.inputs();
      inputs.erase(inputs.begin() + lost);
      EXPECT_GT(trial.wrong(trial.result(op, inputs)), trial.few()) << "without rank " << lost;
    }
  });
}

TEST_P(Exact, SeesAResultOfZeros) {
  for_each_trial([](auto& trial, ReduceOp, int) {
    EXPECT_GT(trial.wrong(typename std::decay_t<decltype(trial)>::Elements(trial.count)),
              trial.few());
  });
}

/// For the operations of which that is a mistake.
TEST_P(Exact, SeesATermThatCountsTwice) {
  for_each_trial([](auto& trial, ReduceOp op, int ranks) {
    const bool repeatable = op == ReduceOp::min || op == ReduceOp::max || op == ReduceOp::band ||
                            op == ReduceOp::bor || op == ReduceOp::land || op == ReduceOp::lor ||
                            op == ReduceOp::minloc || op == ReduceOp::maxloc;
    for (int twice = 0; twice < ranks && !repeatable; ++twice) {
      auto inputs = trial.inputs();
      inputs.push_back(inputs[static_cast<std::size_t>(twice)]);
      EXPECT_GT(trial.wrong(trial.result(op, inputs)), trial.few()) << "rank " << twice << " twice";
    }
  });
}

TEST_P(Exact, SeesATermOfAnotherElement) {
  for_each_trial([](auto& trial, ReduceOp op, int ranks) {
    for (const int moved : {0, ranks - 1}) {
      auto inputs = trial.inputs();
      auto& input = inputs[static_cast<std::size_t>(moved)];
      std::rotate(input.begin(), input.begin() + 1, input.end());
      EXPECT_GT(trial.wrong(trial.result(op, inputs)), trial.few()) << "rank " << moved;
    }
  });
}

TEST_P(Exact, SeesAnotherOperation) {
  for_each_trial([](auto& trial, ReduceOp op, int ranks) {
    for (int i = 0; i < reduce_op_count && ranks > 1; ++i) {
      const auto other = static_cast<ReduceOp>(i);
      if (other == op || !is_reduced(GetParam(), other)) continue;
      // The average of two ranks is the sum of halves.
      if (ranks == 2 && std::min(op, other) == ReduceOp::avg &&
          std::max(op, other) == ReduceOp::premul_sum)
        continue;
      EXPECT_GT(trial.wrong(trial.result(other, trial.inputs())), trial.few())
          << "for " << name_of(other);
    }
  });
}

TEST_P(Exact, ChecksTheFirstTermsAlone) {
  for_each_trial([](auto& trial, ReduceOp op, int ranks) {
    if (op == ReduceOp::avg || ranks == 1) return;  // scans have none
    for (const int terms : {1, ranks - 1}) {
      auto inputs = trial.inputs();
      inputs.resize(static_cast<std::size_t>(terms));
      EXPECT_EQ(trial.wrong(trial.result(op, inputs), terms), 0U) << terms;
      EXPECT_GT(trial.wrong(trial.result(), terms), trial.few()) << terms;
    }
  });
}

// --- what is special about some types and operations

/// Changes each element of the result by `change(element, inputs, i)` that returns true. There are
/// such elements, and they alone are wrong.
template <class T>
void expect_seen(Trial<T>& trial,
                 const std::function<bool(T& result, const std::vector<std::vector<T>>& inputs,
                                          std::size_t i)>& change) {
  auto result = trial.result();
  std::size_t changed = 0;
  for (std::size_t i = 0; i < result.size(); ++i)
    if (change(result[i], trial.inputs(), i)) ++changed;
  EXPECT_GT(changed, trial.count / 10);
  EXPECT_EQ(trial.wrong(result), changed);
}

/// Where several ranks have the value, the least index counts.
template <class T>
void expect_ties_to_be_seen(Backend& backend) {
  for (const ReduceOp op : {ReduceOp::minloc, ReduceOp::maxloc})
    for (const int ranks : {2, 3, 8, 20}) {
      using Element = ValueIndex<T>;
      const DataType type = data_type_of<Element>;
      SCOPED_TRACE(fmt::format("{} of {} by {} ranks", name_of(op), name_of(type), ranks));
      Trial<Element> trial(backend, type, op, ranks);
      expect_seen<Element>(trial, [](Element& result, const auto& inputs, std::size_t i) {
        for (const auto& input : inputs)
          if (input[i].value == result.value && input[i].index != result.index) {
            result.index = input[i].index;
            return true;
          }
        return false;
      });
      // The value decides first: the least index of all is another one.
      expect_seen<Element>(trial, [](Element& result, const auto& inputs, std::size_t i) {
        const auto least =
            std::min_element(inputs.begin(), inputs.end(),
                             [i](const auto& a, const auto& b) { return a[i].index < b[i].index; });
        if ((*least)[i].index == result.index) return false;
        result.index = (*least)[i].index;
        return true;
      });
    }
}
TEST(ExactPairs, SeeTheIndexOfAnotherRank) {
  test::run_ranks(1, [](Communicator& comm, int) {
    expect_ties_to_be_seen<float>(backend_of(comm));
    expect_ties_to_be_seen<double>(backend_of(comm));
    expect_ties_to_be_seen<std::int32_t>(backend_of(comm));
    expect_ties_to_be_seen<std::int64_t>(backend_of(comm));
  });
}

/// MPI does not move padding.
TEST(ExactPairs, MayHaveAnyPaddingInAResult) {
  test::run_ranks(1, [](Communicator& comm, int) {
    Trial<ValueIndex<double>> trial(backend_of(comm), DataType::f64_i32, ReduceOp::minloc, 3);
    auto result = trial.result();
    for (auto& element : result) flip(&element, meaning<ValueIndex<double>>, 0xff);
    EXPECT_EQ(trial.wrong(result), 0U);
  });
}

/// Inputs are zero or have any one bit. Results are 1 or 0.
TEST(ExactTruth, SeesAResultThatIsNeitherOneNorZero) {
  test::run_ranks(1, [](Communicator& comm, int) {
    for (const ReduceOp op : {ReduceOp::land, ReduceOp::lor, ReduceOp::lxor})
      for (const int ranks : {1, 2, 8, 20}) {
        SCOPED_TRACE(fmt::format("{} of {} ranks", name_of(op), ranks));
        Trial<std::uint8_t> trial(backend_of(comm), DataType::boolean, op, ranks);
        unsigned seen = 0;
        for (const auto& input : trial.inputs())
          for (const std::uint8_t value : input) seen |= value;
        EXPECT_EQ(seen, 0xffU);
        expect_seen<std::uint8_t>(trial, [](std::uint8_t& result, const auto&, std::size_t) {
          if (result == 0) return false;
          result = 2;
          return true;
        });
        expect_seen<std::uint8_t>(trial, [](std::uint8_t& result, const auto&, std::size_t) {
          if (result != 0) return false;
          result = 1;
          return true;
        });
      }
  });
}

/// Truth values that are only moved keep their bytes.
TEST(ExactTruth, HasAnyByteWhereItIsMoved) {
  test::run_ranks(1, [](Communicator& comm, int) {
    Trial<std::uint8_t> trial(backend_of(comm), DataType::boolean, ReduceOp::sum, 2);
    auto input = trial.inputs()[1];
    EXPECT_GT(std::count_if(input.begin(), input.end(), [](auto byte) { return byte > 1; }),
              static_cast<std::ptrdiff_t>(trial.count / 2));
    for (auto& byte : input) byte = byte != 0 ? 1 : 0;
    EXPECT_GT(trial.changed(input, 1), trial.count / 2);
  });
}

/// No part of a product is zero, whose sign would depend on the order.
TEST(ExactComplex, HasOneProductInAnyOrder) {
  test::run_ranks(1, [](Communicator& comm, int) {
    for (const int ranks : {2, 8, 20}) {
      Trial<std::complex<float>> trial(backend_of(comm), DataType::complex_f32, ReduceOp::prod,
                                       ranks);
      auto inputs = trial.inputs();
      std::reverse(inputs.begin(), inputs.end());
      EXPECT_EQ(trial.wrong(trial.result(ReduceOp::prod, inputs)), 0U);
      for (const auto& z : trial.result()) EXPECT_TRUE(z.real() != 0 && z.imag() != 0);
      // The conjugates are another mistake.
      auto result = trial.result();
      for (auto& z : result) z = std::conj(z);
      EXPECT_EQ(trial.wrong(result), trial.count);
    }
  });
}

}  // namespace
}  // namespace plait::exact
