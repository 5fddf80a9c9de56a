// Functions for collectives that end in one (plait/rows.hpp): what transformers do after an
// all-reduce. Values are f32 until they are stored. Matrices have as many columns as the
// collective, and lie in memory of this rank's device, aligned to 16 bytes.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "plait/row.hpp"

namespace plait {

/// How a number is stored in 8 bits.
enum class Scaling {
  none,
  of_tensor,  // times the reciprocal of a number in device memory
  of_row  // times that of max(|row|) / (the largest number of the type), which is stored as well
};

namespace detail {

/// Empty if all pointers are aligned. Null ones are.
template <class... Pointers>
std::string misaligned(Pointers... pointers) {
  return (... && (reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0))
             ? std::string()
             : "a matrix or vector of the function is not aligned to 16 bytes";
}

inline std::string null(const char* member) {
  return std::string("the function's `") + member + "` is null";
}

/// By `fma`, so that every compiler rounds alike.
template <class Row>
PLAIT_DEVICE float squares_of(const typename Row::Values& x) {
  float sum = 0;
  PLAIT_UNROLL
  for (unsigned i = 0; i < Row::width; ++i) sum = std::fma(x[i], x[i], sum);
  return sum;
}

}  // namespace detail

/// x = sum + residual; residual_out = x; y = x / sqrt(mean(x * x) + epsilon) * weight; out = y, or
/// scaled. (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.) The mean is that of
/// the x before they are rounded. `Out` is T, or for scaled numbers f8e4m3, f8e5m2 or int8.
template <class T, class Out = T, Scaling Scaled = Scaling::none, class Weight = T>
struct ResidualRmsNorm {
  const T* residual;     // [row][column]; null: none
  const Weight* weight;  // [column]
  T* residual_out;       // [row][column], perhaps `residual` itself; null: not stored
  Out* out;              // [row][column]
  float epsilon = 1e-5f;
  const float* scale = nullptr;  // of_tensor: one number
  float* row_scales = nullptr;   // of_row: [row], stored

  std::string refusal(std::size_t) const {
    if (weight == nullptr) return detail::null("weight");
    if (out == nullptr) return detail::null("out");
    if (Scaled == Scaling::of_tensor && scale == nullptr) return detail::null("scale");
    if (Scaled == Scaling::of_row && row_scales == nullptr) return detail::null("row_scales");
    return detail::misaligned(residual, weight, residual_out, out);
  }
  template <class Row>
  struct Needed {
    typename Row::template Fetched<T> residual;
    typename Row::template Fetched<Weight> weight;
    float scale;
  };
  template <class Row>
  PLAIT_DEVICE Needed<Row> ahead(const Row& row) const {
    return {row.fetch(residual != nullptr ? row.of(residual) : nullptr), row.fetch(weight),
            Scaled == Scaling::of_tensor ? *scale : 1.0f};
  }

  template <class Row>
  PLAIT_DEVICE void operator()(Row& row, const Needed<Row>& needed) const {
    using Values = typename Row::Values;
    const float squares = row.sum([&](auto piece, Values& x) PLAIT_INLINED {
      Values added = {};
      if (residual != nullptr) row.load(needed.residual, piece, added);
      PLAIT_UNROLL
      for (unsigned i = 0; i < Row::width; ++i) x[i] += added[i];
      if (residual_out != nullptr) row.store(row.of(residual_out), piece, x);
      return detail::squares_of<Row>(x);
    });
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(row.columns()) + epsilon);
    row.each([&](auto piece, Values& x) PLAIT_INLINED {
      Values weights;
      row.load(needed.weight, piece, weights);
      PLAIT_UNROLL
      for (unsigned i = 0; i < Row::width; ++i) x[i] = x[i] * factor * weights[i];
      if constexpr (Scaled != Scaling::of_row) {
        scale_and_store(row, piece, x, 1.0f / needed.scale);
      }
    });
    if constexpr (Scaled == Scaling::of_row) {
      const float most = row.max([](auto, const Values& y) PLAIT_INLINED {
        float larger = 0;
        PLAIT_UNROLL
        for (unsigned i = 0; i < Row::width; ++i) larger = Row::larger(larger, std::fabs(y[i]));
        return larger;
      });
      constexpr float least = 0x1p-100f;  // for rows of zeros; its reciprocal is finite
      const float its = Row::larger(most / largest_of<Out>, least);
      if (row.is_first_thread()) row_scales[row.number()] = its;
      row.each([&](auto piece, Values& y)
                   PLAIT_INLINED { scale_and_store(row, piece, y, 1.0f / its); });
    }
  }

 private:
  template <class Row>
  PLAIT_DEVICE void scale_and_store(const Row& row, typename Row::Piece piece,
                                    typename Row::Values& y, float factor) const {
    if constexpr (Scaled != Scaling::none) {
      PLAIT_UNROLL
      for (unsigned i = 0; i < Row::width; ++i) y[i] *= factor;
    }
    row.store(row.of(out), piece, y);
  }
};

struct Relu {
  PLAIT_DEVICE float operator()(float x) const { return x < 0 ? 0 : x; }
};
/// x times the logistic function of x.
struct Silu {
  PLAIT_DEVICE float operator()(float x) const { return x / (1.0f + std::exp(-x)); }
};
/// By tanh, as in GPT-2: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
struct Gelu {
  PLAIT_DEVICE float operator()(float x) const {
    const float inner = 0.7978845608f * x * std::fma(0.044715f * x, x, 1.0f);
    return 0.5f * x * (1.0f + std::tanh(inner));
  }
};

/// out = activation(sum + bias).
template <class T, class Activation, class Out = T>
struct BiasActivation {
  const T* bias;  // [column]; null: none
  Out* out;       // [row][column]
  Activation activation{};

  std::string refusal(std::size_t) const {
    return out == nullptr ? detail::null("out") : detail::misaligned(bias, out);
  }
  template <class Row>
  PLAIT_DEVICE auto ahead(const Row& row) const {
    return row.fetch(bias);
  }
  template <class Row, class Fetched>
  PLAIT_DEVICE void operator()(Row& row, const Fetched& fetched) const {
    row.each([&](auto piece, typename Row::Values& x) PLAIT_INLINED {
      typename Row::Values added = {};
      if (bias != nullptr) row.load(fetched, piece, added);
      PLAIT_UNROLL
      for (unsigned i = 0; i < Row::width; ++i) x[i] = activation(x[i] + added[i]);
      row.store(row.of(out), piece, x);
    });
  }
};

/// out = sum; squares = the sum of its squares in each row.
template <class T>
struct SumOfSquares {
  T* out;          // [row][column]; null: not stored
  float* squares;  // [row]

  std::string refusal(std::size_t) const {
    return squares == nullptr ? detail::null("squares") : detail::misaligned(out);
  }
  template <class Row>
  PLAIT_DEVICE void operator()(Row& row) const {
    const float sum = row.sum([&](auto piece, const typename Row::Values& x) PLAIT_INLINED {
      if (out != nullptr) row.store(row.of(out), piece, x);
      return detail::squares_of<Row>(x);
    });
    if (row.is_first_thread()) squares[row.number()] = sum;
  }
};

}  // namespace plait
