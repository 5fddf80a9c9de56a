// A row of a matrix that the threads of a block have together, for functions in which collectives
// end (plait/rows.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/numeric.hpp"
#include "backends/device/pack.hpp"

namespace plait {

/// The largest number of an 8-bit type.
template <class U>
inline constexpr float largest_of = std::is_same_v<U, std::int8_t> ? 127.0f
                                    : std::is_same_v<U, f8e4m3>    ? 448.0f
                                                                   : 57344.0f;  // f8e5m2

/// Nothing beyond the largest number; a NaN stays one.
template <class U>
PLAIT_ELEMENT float within(float x) {
  return x < -largest_of<U> ? -largest_of<U> : x > largest_of<U> ? largest_of<U> : x;
}

/// Rounds to the nearest U. 8-bit types saturate: numbers beyond the largest become the largest,
/// and a NaN becomes the NaN of a float and the 0 of an integer.
template <class U>
PLAIT_ELEMENT U saturated(float x) {
  if constexpr (std::is_same_v<U, std::int8_t>) {
    return static_cast<U>(x != x ? 0 : __builtin_rintf(within<U>(x)));
  } else if constexpr (std::is_same_v<U, f8e4m3> || std::is_same_v<U, f8e5m2>) {
    return narrow<U>(within<U>(x));
  } else {
    return narrow<U>(x);
  }
}

/// Loads a pack of words of any elements. On the host, where elements are also accessed as what
/// they are, as bytes.
PLAIT_CALLS_HOST
template <Device D, std::size_t Bytes>
PLAIT_DEVICE Pack<std::uint32_t, Bytes> load_words(D& dev, const Pack<std::uint32_t, Bytes>* from) {
  Pack<std::uint32_t, Bytes> words;
  if constexpr (!D::threads_as_launched) {
    __builtin_memcpy(&words, from, Bytes);
  } else if constexpr (Bytes >= 8) {
    words = dev.load(from);
  } else {
    words = *from;
  }
  return words;
}

/// One row, as f32. Each thread has some pieces of `width` columns, which no other thread has. All
/// threads of the block call the functions below, unless they say otherwise.
template <Device D, class T, int Parts>
class Row {
 public:
  static constexpr unsigned width = 16 / sizeof(T);
  /// Not in long rows, for which there are not enough registers.
  static constexpr bool fetches_early = D::threads_as_launched && Parts <= 2;
  using Values = float[width];
  /// Where a piece is: `column` is that of its first element.
  struct Piece {
    unsigned part, column;
  };
  using Places = typename D::template RowValues<Parts, width>;
  /// What one access moves of a piece of elements of U, seen as elements of V.
  template <class V, class U>
  using Words = Pack<V, (sizeof(U[width]) < 16 ? sizeof(U[width]) : 16)>;
  template <class U>
  static constexpr unsigned raw_words = (sizeof(U) * width + 15) / 16;
  /// A piece as it lies in memory. In words, because a compiler may take smaller elements apart,
  /// and then waits for the load.
  template <class U>
  struct Raw {
    Words<std::uint32_t, U> words[raw_words<U>];
  };

  PLAIT_DEVICE Row(D& dev, Places& places, std::size_t number, unsigned columns,
                   unsigned part_packs)
      : dev_(dev), places_(places), number_(number), columns_(columns), part_packs_(part_packs) {}

  /// The number of the row among those that the rank gets.
  PLAIT_DEVICE std::size_t number() const { return number_; }
  PLAIT_DEVICE unsigned columns() const { return columns_; }
  /// Where this row begins in a matrix of as many columns, whose rows lie one behind the other.
  template <class U>
  PLAIT_DEVICE U* of(U* matrix) const {
    return matrix + number_ * columns_;
  }

  /// Calls `f(piece, values)` for each piece of this thread. `f` may change the values, and the
  /// next `each` has the changed ones.
  template <class F>
  PLAIT_DEVICE void each(const F& f) {
    PLAIT_UNROLL
    for (unsigned part = 0; part < unsigned{Parts}; ++part)
      each_place([&](unsigned place) PLAIT_INLINED {
        const unsigned column = column_of(part, place);
        if (column < columns_) f(Piece{part, column}, at(part, column));
      });
  }
  /// Combines what `f(piece, values)` says of each piece of the row by a commutative operation with
  /// this neutral number. All threads get the same bits, which depend on the row alone. `f` may
  /// change the values, as in `each`.
  PLAIT_CALLS_HOST
  template <class F, class Op>
  PLAIT_DEVICE float reduce(const F& f, const Op& op, float neutral) {
    return with_one_nan(dev_.template reduce<Parts>(
        part_packs_, columns_ / width,
        [&](unsigned part, unsigned place) PLAIT_INLINED {
          const unsigned column = column_of(part, place);
          return column < columns_ ? f(Piece{part, column}, at(part, column)) : neutral;
        },
        op, neutral));
  }
  template <class F>
  PLAIT_DEVICE float sum(const F& f) {
    return reduce(
        f, [](float a, float b) PLAIT_INLINED { return a + b; }, 0.0f);
  }
  /// NaN, if there is one.
  template <class F>
  PLAIT_DEVICE float max(const F& f) {
    return reduce(f, larger, -__builtin_huge_valf());
  }
  /// A NaN rather than a number, and +0 rather than -0, whatever their order.
  PLAIT_DEVICE static float larger(float a, float b) {
    if (a == b) return bits_as<float>(bits_as<std::uint32_t>(a) & bits_as<std::uint32_t>(b));
    return a > b || a != a ? a : b;
  }
  /// True in one thread of the block.
  PLAIT_CALLS_HOST
  PLAIT_DEVICE bool is_first_thread() const { return dev_.thread() == 0; }

  /// Loads and stores a piece of a row in memory that no other rank uses, of any type; `row` is
  /// aligned to the bytes of a piece, at most 16. One thread alone.
  template <class U>
  PLAIT_DEVICE void load(const U* row, Piece piece, Values& to) const {
    widen_all(load_raw(row + piece.column), to);
  }
  /// 8-bit types saturate.
  template <class U>
  PLAIT_DEVICE void store(U* row, Piece piece, const Values& values) const {
    constexpr unsigned each = Words<U, U>::lanes;
    PLAIT_UNROLL
    for (unsigned i = 0; i < width; i += each) {
      Words<U, U> words;
      PLAIT_UNROLL
      for (unsigned j = 0; j < each; j += converted_in_pairs<U> ? 2 : 1) {
        if constexpr (converted_in_pairs<U>) {
          narrow_pair(within<U>(values[i + j]), within<U>(values[i + j + 1]), words.lane[j],
                      words.lane[j + 1]);
        } else {
          words.lane[j] = saturated<U>(values[i + j]);
        }
      }
      store_words(reinterpret_cast<Words<U, U>*>(row + piece.column + i), words);
    }
  }

  /// This thread's pieces of a row in memory, on their way from there on a GPU: fetch in `ahead`
  /// what the function needs besides the sum. Elsewhere they are loaded when they are asked for, so
  /// ask before anything is stored there. Null: no row, whose values nobody asks for.
  template <class U>
  class Fetched {
    friend class Row;
    Raw<U> raw_[fetches_early ? Parts : 1];  // NOLINT(bugprone-branch-clone): 1 may be Parts
    const U* row_ = nullptr;
  };
  template <class U>
  PLAIT_DEVICE void load(const Fetched<U>& fetched, Piece piece, Values& to) const {
    if constexpr (fetches_early) {
      widen_all(fetched.raw_[piece.part], to);
    } else {
      load(fetched.row_, piece, to);
    }
  }
  template <class U>
  PLAIT_DEVICE Fetched<U> fetch(const U* row) const {
    Fetched<U> fetched;
    fetched.row_ = row;
    if constexpr (fetches_early) {
      if (row == nullptr) return fetched;
      PLAIT_UNROLL
      for (unsigned part = 0; part < unsigned{Parts}; ++part)
        each_place([&](unsigned place) PLAIT_INLINED {
          const unsigned column = column_of(part, place);
          fetched.raw_[part] = load_raw(row + (column < columns_ ? column : 0));
        });
    }
    return fetched;
  }

  // For the collectives.

  /// Calls `f(place)` for each place of a part that this thread has. All parts have the same.
  PLAIT_CALLS_HOST
  template <class F>
  PLAIT_DEVICE void each_place(const F& f) const {
    if constexpr (D::threads_as_launched) {
      f(dev_.thread());
    } else {
      for (unsigned place = dev_.thread(); place < part_packs_; place += dev_.threads()) f(place);
    }
  }
  /// Of the first element of the pack that is there, perhaps beyond the row.
  PLAIT_DEVICE unsigned column_of(unsigned part, unsigned place) const {
    return (part * part_packs_ + place) * width;
  }
  PLAIT_DEVICE void set(unsigned part, unsigned column, const Pack<T, 16>& pack) {
    widen_all(pack.lane, at(part, column));
  }

 private:
  PLAIT_CALLS_HOST
  PLAIT_DEVICE Values& at(unsigned part, unsigned column) { return places_.at(part, column); }
  template <class U>
  PLAIT_DEVICE static float widen_one(U x) {
    if constexpr (std::is_same_v<U, std::int8_t>) {
      return static_cast<float>(x);
    } else {
      return widen(x);
    }
  }
  template <class U>
  PLAIT_DEVICE static void widen_all(const U (&elements)[width], Values& to) {
    PLAIT_UNROLL
    for (unsigned i = 0; i < width; ++i) to[i] = widen_one(elements[i]);
  }
  template <class U>
  PLAIT_DEVICE static void widen_all(const Raw<U>& raw, Values& to) {
    struct Lanes {
      U lane[width];
    };
    widen_all(bits_as<Lanes>(raw).lane, to);
  }

  template <class U>
  PLAIT_DEVICE Raw<U> load_raw(const U* from) const {
    Raw<U> raw;
    PLAIT_UNROLL
    for (unsigned i = 0; i < raw_words<U>; ++i)
      raw.words[i] = load_words(dev_, reinterpret_cast<const Words<std::uint32_t, U>*>(from) + i);
    return raw;
  }
  PLAIT_CALLS_HOST
  template <class W>
  PLAIT_DEVICE void store_words(W* to, const W& words) const {
    if constexpr (sizeof(W) >= 8) {
      dev_.store(to, words);
    } else {
      *to = words;
    }
  }

  D& dev_;
  Places& places_;
  std::size_t number_;
  unsigned columns_, part_packs_;
};

}  // namespace plait
