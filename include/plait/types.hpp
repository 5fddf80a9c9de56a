// Data types, reduction operations and the element types that C++ itself lacks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace plait {

/// Element types of a collective. Bytes: 1 (i8 u8 f8*), 2 (f16 bf16), 4 (i32 u32 f32), 8 (i64 u64
/// f64).
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
  f64
};
inline constexpr int data_type_count = 12;

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
///   and sums. Floats only.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg, premul_sum };
inline constexpr int reduce_op_count = 6;

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

namespace detail {
template <class T, class... Others>
concept OneOf = (std::is_same_v<T, Others> || ...);
/// Excludes short, whose size no data type has, and bool and the Unicode character types, which are
/// no numbers.
template <class T>
concept Integer = OneOf<T, char, signed char, unsigned char, int, unsigned, long, unsigned long,
                        long long, unsigned long long>;
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
#undef PLAIT_DATA_TYPE_OF
template <class T>
inline constexpr DataType data_type_of = DataTypeOf<T>::value;

constexpr bool is_valid(DataType type) { return static_cast<int>(type) < data_type_count; }
constexpr bool is_valid(ReduceOp op) { return static_cast<int>(op) < reduce_op_count; }
constexpr bool is_valid(Collective collective) {
  return static_cast<int>(collective) < collective_count;
}
constexpr bool is_float(DataType type) { return type >= DataType::f16; }
constexpr bool is_signed_integer(DataType type) {
  return type == DataType::i8 || type == DataType::i32 || type == DataType::i64;
}

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  constexpr std::uint8_t bytes[data_type_count] = {1, 1, 4, 4, 8, 8, 2, 2, 1, 1, 4, 8};
  return bytes[static_cast<int>(type)];
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
