// Types: their names and the reverse, sizes, operations.
#include "plait/types.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/error.hpp"
#include "support/errors.hpp"

namespace plait {
namespace {

using test::expect_invalid;

TEST(Types, NamesParseBack) {
  for (int i = 0; i < data_type_count; ++i)
    EXPECT_EQ(parse_data_type(name_of(static_cast<DataType>(i))), static_cast<DataType>(i));
  for (int i = 0; i < reduce_op_count; ++i)
    EXPECT_EQ(parse_reduce_op(name_of(static_cast<ReduceOp>(i))), static_cast<ReduceOp>(i));
  for (const auto kind : {BackendKind::host, BackendKind::cuda, BackendKind::hip})
    EXPECT_EQ(parse_backend(name_of(kind)), kind);
  for (const auto collective : {Collective::all_reduce, Collective::barrier})
    EXPECT_EQ(parse_collective(name_of(collective)), collective);
}

TEST(Types, NamesAreThoseOfTheEnumerators) {
  EXPECT_EQ(name_of(DataType::f8e4m3), "f8e4m3");
  EXPECT_EQ(name_of(DataType::u64), "u64");
  EXPECT_EQ(name_of(ReduceOp::premul_sum), "premul_sum");
  EXPECT_EQ(name_of(Collective::all_reduce), "all_reduce");
  EXPECT_EQ(name_of(BackendKind::hip), "hip");
  EXPECT_EQ(name_of(ErrorCode::no_peer_access), "no_peer_access");
}

TEST(Types, SpellingsOfNcclAreUnderstood) {
  for (const auto& [name, type] : {std::pair("float", DataType::f32),
                                   {"double", DataType::f64},
                                   {"half", DataType::f16},
                                   {"bfloat16", DataType::bf16},
                                   {"int8", DataType::i8},
                                   {"uint8", DataType::u8},
                                   {"int32", DataType::i32},
                                   {"uint32", DataType::u32},
                                   {"int64", DataType::i64},
                                   {"uint64", DataType::u64}})
    EXPECT_EQ(parse_data_type(name), type) << name;
}

TEST(Types, UnknownNamesAreErrorsThatListTheKnown) {
  for (const char* wrong : {"", "f31", "F32", "f32 "})
    expect_invalid([&] { parse_data_type(wrong); }, "i8, u8, i32, u32, i64, u64, f16, bf16");
  expect_invalid([] { parse_reduce_op("mean"); }, "mean", "sum, prod, min, max, avg, premul_sum");
  expect_invalid([] { parse_backend("rocm"); }, "host, cuda, hip");
  expect_invalid([] { parse_collective("allreduce"); }, "all_reduce");
}

TEST(Types, NamesOfValuesThatAreNone) {  // messages name such values: they must not fail themselves
  EXPECT_FALSE(is_valid(static_cast<DataType>(data_type_count)));
  EXPECT_FALSE(is_valid(static_cast<ReduceOp>(reduce_op_count)));
  EXPECT_FALSE(name_of(static_cast<DataType>(200)).empty());
  EXPECT_FALSE(name_of(static_cast<ReduceOp>(200)).empty());
}

const std::string of_integers = "sum prod min max avg band bor bxor land lor lxor ",
                  of_floats = "sum prod min max avg premul_sum ",
                  of_complex = "sum prod avg premul_sum ", of_pairs = "minloc maxloc ",
                  of_truth = "land lor lxor ";

/// All that is said of the type of T.
template <class T>
void expect_type(DataType type, const std::string& operations) {
  SCOPED_TRACE(name_of(type));
  EXPECT_EQ(data_type_of<T>, type);
  EXPECT_EQ(size_of(type), sizeof(T));
  EXPECT_EQ(alignment_of(type), alignof(T));
  EXPECT_EQ(is_float(type), operations == of_floats);
  EXPECT_EQ(is_integer(type), operations == of_integers);
  EXPECT_EQ(is_signed_integer(type), operations == of_integers && std::is_signed_v<T>);
  std::string all;
  for (int op = 0; op < reduce_op_count; ++op)
    if (is_reduced(type, static_cast<ReduceOp>(op)))
      all += std::string(name_of(static_cast<ReduceOp>(op))) + " ";
  EXPECT_EQ(all, operations);
}

template <class T>
concept HasDataType = requires {
  DataTypeOf<T>::value;
};

/// Programs pass their own integers, not only what std::int64_t and the like stand for, and their
/// own structures: the sizes and alignments must be those of C and MPI.
TEST(Types, AreThoseOfCAndMpi) {
  expect_type<signed char>(DataType::i8, of_integers);
  expect_type<unsigned char>(DataType::u8, of_integers);
  expect_type<char>(std::is_signed_v<char> ? DataType::i8 : DataType::u8, of_integers);
  expect_type<short>(DataType::i16, of_integers);
  expect_type<unsigned short>(DataType::u16, of_integers);
  expect_type<int>(DataType::i32, of_integers);
  expect_type<unsigned>(DataType::u32, of_integers);
  expect_type<long>(sizeof(long) == 8 ? DataType::i64 : DataType::i32, of_integers);
  expect_type<unsigned long>(sizeof(long) == 8 ? DataType::u64 : DataType::u32, of_integers);
  expect_type<long long>(DataType::i64, of_integers);
  expect_type<unsigned long long>(DataType::u64, of_integers);
  expect_type<f16>(DataType::f16, of_floats);
  expect_type<bf16>(DataType::bf16, of_floats);
  expect_type<f8e4m3>(DataType::f8e4m3, of_floats);
  expect_type<f8e5m2>(DataType::f8e5m2, of_floats);
  expect_type<float>(DataType::f32, of_floats);
  expect_type<double>(DataType::f64, of_floats);
  expect_type<bool>(DataType::boolean, of_truth);
  expect_type<std::complex<float>>(DataType::complex_f32, of_complex);
  expect_type<std::complex<double>>(DataType::complex_f64, of_complex);
  expect_type<ValueIndex<float>>(DataType::f32_i32, of_pairs);
  expect_type<ValueIndex<double>>(DataType::f64_i32, of_pairs);
  expect_type<ValueIndex<int>>(DataType::i32_i32, of_pairs);
  expect_type<ValueIndex<long>>(DataType::i64_i32, of_pairs);
  expect_type<ValueIndex<long long>>(DataType::i64_i32, of_pairs);
  EXPECT_EQ(offsetof(ValueIndex<double>, index), 8u);
  EXPECT_EQ(offsetof(ValueIndex<float>, index), 4u);
  EXPECT_FALSE(HasDataType<wchar_t>);
  EXPECT_FALSE(HasDataType<char8_t>);
  EXPECT_FALSE(HasDataType<char32_t>);
}

}  // namespace
}  // namespace plait
