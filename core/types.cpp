#include "plait/types.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/text.hpp"
#include "plait/collective_table.h"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr std::array<std::string_view, data_type_count> type_names = {
    "i8",   "u8",          "i32",         "u32",     "i64",     "u64",     "f16",
    "bf16", "f8e4m3",      "f8e5m2",      "f32",     "f64",     "bool",    "i16",
    "u16",  "complex_f32", "complex_f64", "f32_i32", "f64_i32", "i32_i32", "i64_i32"};
constexpr std::array<std::string_view, reduce_op_count> op_names = {
    "sum", "prod", "min",  "max", "avg",  "premul_sum", "band",
    "bor", "bxor", "land", "lor", "lxor", "minloc",     "maxloc"};
#define PLAIT_NAME(NAME, ...) std::string_view(#NAME),
constexpr std::array collective_names = {PLAIT_COLLECTIVES(PLAIT_NAME, PLAIT_NAME)};
#undef PLAIT_NAME
#define PLAIT_IN_ORDER(NAME, ...)                                                      \
  static_assert(collective_names[static_cast<std::size_t>(Collective::NAME)] == #NAME, \
                "the table is not in the order of Collective");
PLAIT_COLLECTIVES(PLAIT_IN_ORDER, PLAIT_IN_ORDER)
#undef PLAIT_IN_ORDER
static_assert(collective_names.size() == collective_count);
constexpr std::array<std::string_view, 3> backend_names = {"host", "cuda", "hip"};
constexpr std::array<std::string_view, 10> error_names = {
    "invalid_argument", "unsupported", "mismatch",  "no_peer_access", "out_of_memory",
    "timeout",          "aborted",     "rank_lost", "backend",        "bootstrap"};

constexpr std::pair<std::string_view, DataType> type_aliases[] = {
    {"int16", DataType::i16},       {"uint16", DataType::u16},      {"boolean", DataType::boolean},
    {"int8", DataType::i8},         {"char", DataType::i8},         {"uint8", DataType::u8},
    {"int32", DataType::i32},       {"int", DataType::i32},         {"uint32", DataType::u32},
    {"int64", DataType::i64},       {"uint64", DataType::u64},      {"half", DataType::f16},
    {"float16", DataType::f16},     {"bfloat16", DataType::bf16},   {"float", DataType::f32},
    {"float32", DataType::f32},     {"double", DataType::f64},      {"float64", DataType::f64},
    {"f8e4m3fn", DataType::f8e4m3}, {"fp8_e4m3", DataType::f8e4m3}, {"fp8_e5m2", DataType::f8e5m2}};

template <std::size_t N>
std::string_view lookup(const std::array<std::string_view, N>& names, std::size_t index) {
  return index < N ? names[index] : "invalid";
}

template <class Enum, std::size_t N>
Enum parse(const std::array<std::string_view, N>& names, std::string_view name,
           std::string_view what) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  throw Error(ErrorCode::invalid_argument, fmt::format("unknown {} {}; known: {}", what,
                                                       in_quotes(name), fmt::join(names, ", ")));
}

}  // namespace

std::string_view name_of(DataType type) {
  return lookup(type_names, static_cast<std::size_t>(type));
}
std::string_view name_of(ReduceOp op) { return lookup(op_names, static_cast<std::size_t>(op)); }
std::string_view name_of(Collective collective) {
  return lookup(collective_names, static_cast<std::size_t>(collective));
}
std::string_view name_of(BackendKind kind) {
  return lookup(backend_names, static_cast<std::size_t>(kind));
}
std::string_view name_of(ErrorCode code) {
  return lookup(error_names, static_cast<std::size_t>(code));
}

DataType parse_data_type(std::string_view name) {
  for (const auto& [alias, type] : type_aliases)
    if (alias == name) return type;
  return parse<DataType>(type_names, name, "data type");
}
ReduceOp parse_reduce_op(std::string_view name) {
  return parse<ReduceOp>(op_names, name, "operation");
}
Collective parse_collective(std::string_view name) {
  return parse<Collective>(collective_names, name, "collective");
}
BackendKind parse_backend(std::string_view name) {
  return parse<BackendKind>(backend_names, name, "backend");
}

}  // namespace plait
