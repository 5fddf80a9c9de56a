// Data types, reduction operations and the element types that C++ itself lacks.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace plait {

/// Element types of a collective. Bytes: 1 (i8 u8 f8* boolean), 2 (f16 bf16 i16 u16), 4 (i32 u32
/// f32), 8 (i64 u64 f64 complex_f32 f32_i32 i32_i32), 16 (complex_f64 f64_i32 i64_i32).
enum class DataType : std::uint8_t {
  i8,
  u8,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  f32,
  f64,
  boolean,  ///< a byte, named "bool": zero is false
  i16,
  u16,
  complex_f32,  ///< a real part, then an imaginary one
  complex_f64,
  f32_i32,  ///< `ValueIndex<float>`, and so on: for `minloc` and `maxloc`
  f64_i32,
  i32_i32,
  i64_i32
};
inline constexpr int data_type_count = 21;

/// Reduction operations.
/// - Integers wrap modulo 2^bits. `avg` of integers divides the wrapped sum once and truncates
///   towards zero.
/// - 16-bit and 8-bit floats accumulate in f32 and are rounded (to nearest even) when a value
///   leaves a rank.
/// - Floats are computed in IEEE's default environment on all targets, whatever the caller's
///   environment is: docs/floating-point.md.
/// - A resulting NaN has one bit pattern, all ones below the sign, whatever the payloads and signs
///   of the terms.
/// - `min` and `max` of floats: a number wins over a NaN, so the result is NaN only where every
///   rank's element is.
/// - `avg` of floats multiplies the terms by the greatest power of two up to 1 / ranks, sums, and
///   divides by the rest. This is as precise as a division after the sum, but the sum overflows
///   only where the average does. Subnormal terms lose their last bits. `scan` and `exscan` have no
///   `avg`.
/// - `premul_sum` multiplies every rank's element by `CallOptions::scale` (the same on all ranks)
///   and sums. Floats and complex numbers only.
/// - `band`, `bor` and `bxor` work on the bits of integers. `land`, `lor` and `lxor` take an
///   integer or a `boolean` for true if it is not zero, and give 1 or 0.
/// - `minloc` and `maxloc` give the element with the least or greatest value, of pairs of a value
///   and an index. Of equal values, that with the least index wins, and a number wins over a NaN.
///   So the result is the same in any order.
///
/// `is_reduced` says which operations a type has.
enum class ReduceOp : std::uint8_t {
  sum,
  prod,
  min,
  max,
  avg,
  premul_sum,
  band,
  bor,
  bxor,
  land,
  lor,
  lxor,
  minloc,
  maxloc
};
inline constexpr int reduce_op_count = 14;

/// What ranks do together. `Communicator` defines each of them.
enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  send_recv,  ///< a message from one rank to another
  barrier,
  scan,    ///< the reduction of the terms of this rank and of those before it
  exscan,  ///< the same without the own term
};
inline constexpr int collective_count = 12;

/// Which target a communicator runs on.
enum class BackendKind : std::uint8_t { host, cuda, hip };

/// Storage of the floats that C++20 lacks; only kernels compute with them. Bit patterns are IEEE
/// 754 binary16, bfloat16, and the OCP 8-bit formats E4M3 (finite: no infinity, one NaN per sign)
/// and E5M2.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
struct f8e4m3 {
  std::uint8_t bits;
};
struct f8e5m2 {
  std::uint8_t bits;
};

/// A value and where it was found, as MPI's MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_2INT and
/// MPI_LONG_INT lay it out. Bytes that pad it travel along.
template <class T>
struct ValueIndex {
  T value;
  std::int32_t index;
};

namespace detail {
template <class T, class... Others>
concept OneOf = (std::is_same_v<T, Others> || ...);
/// Excludes bool and the Unicode character types, which are no numbers.
template <class T>
concept Integer = OneOf<T, char, signed char, unsigned char, short, unsigned short, int, unsigned,
                        long, unsigned long, long long, unsigned long long>;
}  // namespace detail

/// The data type of elements of the C++ type T. For integers only size and sign count: `long long`
/// is i64, as `long` is. Specialise it for your own type with the same representation, for example
/// __half.
template <class T>
struct DataTypeOf;
template <detail::Integer T>
struct DataTypeOf<T> {
  static constexpr bool has_sign = std::is_signed_v<T>;
  static constexpr DataType value = sizeof(T) == 1   ? (has_sign ? DataType::i8 : DataType::u8)
                                    : sizeof(T) == 2 ? (has_sign ? DataType::i16 : DataType::u16)
                                    : sizeof(T) == 4 ? (has_sign ? DataType::i32 : DataType::u32)
                                                     : (has_sign ? DataType::i64 : DataType::u64);
};
#define PLAIT_DATA_TYPE_OF(T, NAME)                   \
  template <>                                         \
  struct DataTypeOf<T> {                              \
    static constexpr DataType value = DataType::NAME; \
  };
PLAIT_DATA_TYPE_OF(f16, f16)
PLAIT_DATA_TYPE_OF(bf16, bf16)
PLAIT_DATA_TYPE_OF(f8e4m3, f8e4m3)
PLAIT_DATA_TYPE_OF(f8e5m2, f8e5m2)
PLAIT_DATA_TYPE_OF(float, f32)
PLAIT_DATA_TYPE_OF(double, f64)
PLAIT_DATA_TYPE_OF(bool, boolean)
PLAIT_DATA_TYPE_OF(std::complex<float>, complex_f32)
PLAIT_DATA_TYPE_OF(std::complex<double>, complex_f64)
PLAIT_DATA_TYPE_OF(ValueIndex<float>, f32_i32)
PLAIT_DATA_TYPE_OF(ValueIndex<double>, f64_i32)
#undef PLAIT_DATA_TYPE_OF
/// For `long long`, too, where `long` has 64 bits.
template <detail::Integer T>
requires(std::is_signed_v<T> && sizeof(T) >= 4) struct DataTypeOf<ValueIndex<T>> {
  static constexpr DataType value = sizeof(T) == 4 ? DataType::i32_i32 : DataType::i64_i32;
};
template <class T>
inline constexpr DataType data_type_of = DataTypeOf<T>::value;

constexpr bool is_valid(DataType type) { return static_cast<int>(type) < data_type_count; }
constexpr bool is_valid(ReduceOp op) { return static_cast<int>(op) < reduce_op_count; }
constexpr bool is_valid(Collective collective) {
  return static_cast<int>(collective) < collective_count;
}
constexpr bool is_logical(ReduceOp op) { return op >= ReduceOp::land && op <= ReduceOp::lxor; }
constexpr bool is_float(DataType type) { return type >= DataType::f16 && type <= DataType::f64; }
constexpr bool is_signed_integer(DataType type) {
  return type == DataType::i8 || type == DataType::i16 || type == DataType::i32 ||
         type == DataType::i64;
}
constexpr bool is_integer(DataType type) {
  return type < DataType::f16 || type == DataType::i16 || type == DataType::u16;
}
constexpr bool is_complex(DataType type) {
  return type == DataType::complex_f32 || type == DataType::complex_f64;
}
/// Whether an element is a value and its index.
constexpr bool is_value_index(DataType type) { return type >= DataType::f32_i32; }

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  constexpr std::uint8_t bytes[data_type_count] = {1, 1, 4, 4, 8, 8,  2, 2,  1, 1, 4,
                                                   8, 1, 2, 2, 8, 16, 8, 16, 8, 16};
  return bytes[static_cast<int>(type)];
}
/// What the address of an element is a multiple of, in bytes.
constexpr std::size_t alignment_of(DataType type) {
  return is_complex(type) || is_value_index(type) ? size_of(type) / 2 : size_of(type);
}

/// Whether elements of the type can be reduced with the operation.
/// - `sum`, `prod`: numbers, complex ones too.  `avg`: the same.
/// - `min`, `max`: integers and floats.
/// - `premul_sum`: floats and complex numbers.
/// - `band`, `bor`, `bxor`: integers.  `land`, `lor`, `lxor`: integers and `boolean`.
/// - `minloc`, `maxloc`: pairs of a value and an index.
constexpr bool is_reduced(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::max:
      return is_integer(type) || is_float(type);
    case ReduceOp::premul_sum:
      return is_float(type) || is_complex(type);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return is_integer(type);
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor:
      return is_integer(type) || type == DataType::boolean;
    case ReduceOp::minloc:
    case ReduceOp::maxloc:
      return is_value_index(type);
    default:  // sum, prod, avg
      return is_integer(type) || is_float(type) || is_complex(type);
  }
}

/// The names that messages, the benchmark and `parse` use: "bf16", "sum", "all_reduce", "cuda".
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);
std::string_view name_of(BackendKind kind);

/// The reverse of `name_of`; NCCL's spellings ("float", "half", "bfloat16", "int32", ...) are
/// understood too. Throw `Error(invalid_argument)` that lists the names for anything else.
DataType parse_data_type(std::string_view name);
ReduceOp parse_reduce_op(std::string_view name);
Collective parse_collective(std::string_view name);
BackendKind parse_backend(std::string_view name);

}  // namespace plait
