// All inputs of a call with exact data, and its result by another way than the check's.
#pragma once
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "backends/backend.hpp"
#include "bench/exact/exact.hpp"
#include "plait/types.hpp"
#include "support/data.hpp"

namespace plait::exact {

// The reduction, told again in plain C++: not that of the library, and not that of the check.

/// Floats are combined in f64, in which the sums and products of these data are exact.
template <class T>
auto combined(const T& x) {
  if constexpr (is_float(data_type_of<T>)) return static_cast<double>(widen(x));
  else return x;
}
inline double reduce(ReduceOp op, double a, double b) {
  return op == ReduceOp::prod  ? a * b
         : op == ReduceOp::min ? std::min(a, b)
         : op == ReduceOp::max ? std::max(a, b)
                               : a + b;
}
inline double finished(ReduceOp op, double sum, int ranks, double scale) {
  return op == ReduceOp::avg ? sum / ranks : op == ReduceOp::premul_sum ? sum * scale : sum;
}

template <class T>
T reduce(ReduceOp op, T a, T b) {
  using Unsigned = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const auto x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
  switch (op) {
    case ReduceOp::prod:
      return static_cast<T>(x * y);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return static_cast<T>(x & y);
    case ReduceOp::bor:
      return static_cast<T>(x | y);
    case ReduceOp::bxor:
      return static_cast<T>(x ^ y);
    case ReduceOp::land:
      return a && b ? T{1} : T{0};
    case ReduceOp::lor:
      return a || b ? T{1} : T{0};
    case ReduceOp::lxor:
      return !a != !b ? T{1} : T{0};
    default:
      return static_cast<T>(x + y);
  }
}
template <class T>
std::complex<T> reduce(ReduceOp op, std::complex<T> a, std::complex<T> b) {
  return op == ReduceOp::prod ? a * b : a + b;
}
template <class T>
ValueIndex<T> reduce(ReduceOp op, ValueIndex<T> a, ValueIndex<T> b) {
  if (a.value == b.value) return a.index < b.index ? a : b;
  return (a.value < b.value) == (op == ReduceOp::minloc) ? a : b;
}

template <class T>
T finished(ReduceOp op, T sum, int ranks, double /*scale*/) {
  if (op == ReduceOp::avg) return static_cast<T>(sum / static_cast<T>(ranks));
  return is_logical(op) && sum != 0 ? T{1} : sum;  // with one rank nothing has been combined
}
template <class T>
std::complex<T> finished(ReduceOp op, std::complex<T> sum, int ranks, double scale) {
  if (op == ReduceOp::avg) return sum / static_cast<T>(ranks);
  return op == ReduceOp::premul_sum ? sum * static_cast<T>(scale) : sum;
}
template <class T>
ValueIndex<T> finished(ReduceOp, ValueIndex<T> best, int, double) {
  return best;
}

/// Bytes of an element that are no padding.
template <class T>
constexpr std::size_t meaning = sizeof(T);
template <class T>
constexpr std::size_t meaning<ValueIndex<T>> = sizeof(T) + sizeof(std::int32_t);

/// All inputs of one call, and the check of a result.
template <class T>
class Trial {
 public:
  static constexpr std::size_t count = 2000;
  using Elements = std::vector<T>;

  Trial(Backend& backend, DataType type, ReduceOp op, int ranks)
      : backend_(backend),
        data_{.type = type, .op = op, .ranks = ranks, .seed = 7, .scale = 0.5, .first = 3} {
    memory_ = backend_.allocate(count * sizeof(T));
    for (int rank = 0; rank < ranks; ++rank) {
      data_.rank = rank;
      fill(backend_, nullptr, data_, memory_, count);
      inputs_.emplace_back(count);
      copy(inputs_.back().data(), memory_);
    }
  }
  ~Trial() { backend_.deallocate(memory_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const std::vector<Elements>& inputs() const { return inputs_; }
  Elements result(ReduceOp op, const std::vector<Elements>& inputs) const {
    Elements result = inputs.front();
    for (std::size_t i = 0; i < count; ++i) {
      auto value = combined(inputs[0][i]);
      for (std::size_t rank = 1; rank < inputs.size(); ++rank)
        value = reduce(op, value, combined(inputs[rank][i]));
      value = finished(op, value, data_.ranks, data_.scale);
      if constexpr (is_float(data_type_of<T>)) result[i] = test::to<T>(value);
      else result[i] = value;
    }
    return result;
  }
  Elements result() const { return result(data_.op, inputs_); }

  /// A mistake in the terms or the operation makes more elements wrong. The more ranks there are,
  /// the fewer elements depend on a single one.
  std::size_t few() const { return count / 10 / inputs_.size(); }

  std::size_t wrong(const Elements& result, int terms = 0) {
    copy(memory_, result.data());
    data_.terms = terms;
    return count_wrong(backend_, nullptr, data_, memory_, count);
  }
  std::size_t changed(const Elements& input, int rank) {
    copy(memory_, input.data());
    data_.rank = rank;
    return count_changed(backend_, nullptr, data_, memory_, count);
  }

 private:
  void copy(void* to, const void* from) {
    backend_.copy(to, from, count * sizeof(T), nullptr);
    backend_.synchronize(nullptr);
  }

  Backend& backend_;
  Case data_;
  void* memory_ = nullptr;
  std::vector<Elements> inputs_;
};

inline void flip(void* element, std::size_t byte, unsigned char bits) {
  static_cast<unsigned char*>(element)[byte] ^= bits;
}

}  // namespace plait::exact
