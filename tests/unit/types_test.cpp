// Names and their reverse.
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

TEST(Types, SizesAndKinds) {
  EXPECT_EQ(size_of(DataType::i8), 1u);
  EXPECT_EQ(size_of(DataType::f8e5m2), sizeof(f8e5m2));
  EXPECT_EQ(size_of(DataType::bf16), sizeof(bf16));
  EXPECT_EQ(size_of(DataType::f32), 4u);
  EXPECT_EQ(size_of(DataType::u64), 8u);
  EXPECT_EQ(size_of(DataType::f64), 8u);
  EXPECT_FALSE(is_float(DataType::u64));
  EXPECT_TRUE(is_float(DataType::f16));
  EXPECT_TRUE(is_float(DataType::f64));
  EXPECT_FALSE(is_float(DataType::complex_f32));
  EXPECT_FALSE(is_float(DataType::boolean));
  EXPECT_TRUE(is_integer(DataType::u16));
  EXPECT_FALSE(is_integer(DataType::boolean));
  EXPECT_TRUE(is_signed_integer(DataType::i16));
  EXPECT_EQ(size_of(DataType::boolean), sizeof(bool));
  EXPECT_EQ(size_of(DataType::i16), 2u);
  EXPECT_EQ(data_type_of<float>, DataType::f32);
  EXPECT_EQ(data_type_of<std::int64_t>, DataType::i64);
}

/// Programs pass their own structures: the sizes and alignments must be those of C and MPI.
TEST(Types, CompositeElementsAreLaidOutAsInC) {
  const auto expect = []<class T>(DataType type, T) {
    EXPECT_EQ(data_type_of<T>, type);
    EXPECT_EQ(size_of(type), sizeof(T)) << name_of(type);
    EXPECT_EQ(alignment_of(type), alignof(T)) << name_of(type);
  };
  expect(DataType::complex_f32, std::complex<float>());
  expect(DataType::complex_f64, std::complex<double>());
  expect(DataType::f32_i32, ValueIndex<float>());
  expect(DataType::f64_i32, ValueIndex<double>());
  expect(DataType::i32_i32, ValueIndex<int>());
  expect(DataType::i64_i32, ValueIndex<long>());
  expect(DataType::i64_i32, ValueIndex<long long>());
  EXPECT_EQ(offsetof(ValueIndex<double>, index), 8u);
  EXPECT_EQ(offsetof(ValueIndex<float>, index), 4u);
}

TEST(Types, OperationsOfEachType) {
  const auto operations = [](DataType type) {
    std::string all;
    for (int op = 0; op < reduce_op_count; ++op)
      if (is_reduced(type, static_cast<ReduceOp>(op)))
        all += std::string(name_of(static_cast<ReduceOp>(op))) + " ";
    return all;
  };
  for (const DataType type : {DataType::i8, DataType::u8, DataType::i16, DataType::u16,
                              DataType::i32, DataType::u32, DataType::i64, DataType::u64})
    EXPECT_EQ(operations(type), "sum prod min max avg band bor bxor land lor lxor ");
  for (const DataType type : {DataType::f16, DataType::bf16, DataType::f8e4m3, DataType::f8e5m2,
                              DataType::f32, DataType::f64})
    EXPECT_EQ(operations(type), "sum prod min max avg premul_sum ");
  for (const DataType type : {DataType::complex_f32, DataType::complex_f64})
    EXPECT_EQ(operations(type), "sum prod avg premul_sum ");
  for (const DataType type :
       {DataType::f32_i32, DataType::f64_i32, DataType::i32_i32, DataType::i64_i32})
    EXPECT_EQ(operations(type), "minloc maxloc ");
  EXPECT_EQ(operations(DataType::boolean), "land lor lxor ");
}

template <class T>
concept HasDataType = requires {
  DataTypeOf<T>::value;
};

TEST(Types, IntegersAreTheirSizeAndSign) {  // not only what std::int64_t and the like stand for
  EXPECT_EQ(data_type_of<long long>, DataType::i64);
  EXPECT_EQ(data_type_of<unsigned long long>, DataType::u64);
  EXPECT_EQ(data_type_of<long>, sizeof(long) == 8 ? DataType::i64 : DataType::i32);
  EXPECT_EQ(data_type_of<unsigned long>, sizeof(long) == 8 ? DataType::u64 : DataType::u32);
  EXPECT_EQ(data_type_of<int>, DataType::i32);
  EXPECT_EQ(data_type_of<unsigned>, DataType::u32);
  EXPECT_EQ(data_type_of<signed char>, DataType::i8);
  EXPECT_EQ(data_type_of<unsigned char>, DataType::u8);
  EXPECT_EQ(data_type_of<char>, std::is_signed_v<char> ? DataType::i8 : DataType::u8);
  EXPECT_EQ(data_type_of<short>, DataType::i16);
  EXPECT_EQ(data_type_of<unsigned short>, DataType::u16);
  EXPECT_EQ(data_type_of<bool>, DataType::boolean);
  EXPECT_FALSE(HasDataType<wchar_t>);
  EXPECT_FALSE(HasDataType<char8_t>);
  EXPECT_FALSE(HasDataType<char32_t>);
}

}  // namespace
}  // namespace plait
