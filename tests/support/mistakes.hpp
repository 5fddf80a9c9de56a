// Calls with one mistake in their arguments, for every collective: communicators and device groups
// must refuse the same.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "plait/plait.hpp"

namespace plait::test {

struct Mistake {
  Call call;
  const void* send;
  void* recv;
  CallOptions options{};
  ErrorCode code = ErrorCode::invalid_argument;
  std::string why;  // part of the error's sentence, which begins with the collective and a rank
};

/// `good` would be a call in f64 of `rank`, which is the root and has both buffers.
inline std::vector<Mistake> mistakes(const Call& good, const void* send, void* recv, int rank,
                                     int ranks) {
  const CollectiveFacts facts = facts_of(good.collective);
  std::vector<Mistake> all;
  const auto pointers = [&](const Call& call, const void* from, void* to, std::string why) {
    all.push_back({.call = call, .send = from, .recv = to, .why = std::move(why)});
  };
  const auto values = [&](const auto& change, std::string why,
                          ErrorCode code = ErrorCode::invalid_argument) {
    Mistake mistake{.call = good, .send = send, .recv = recv, .code = code, .why = std::move(why)};
    change(mistake);
    all.push_back(mistake);
  };
  const auto moved = [](const void* from, std::ptrdiff_t bytes) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(from)) + bytes;
  };

  pointers(good, nullptr, recv, fmt::format("send is null, with count {}", good.count));
  pointers(good, send, nullptr, fmt::format("recv is null, with count {}", good.count));
  for (const auto& [type, shift] : {std::pair(DataType::f64, 4), {DataType::bf16, 1}}) {
    Call call = good;
    call.type = type;
    const std::string why =
        fmt::format("is not aligned to the {} bytes of {}", size_of(type), name_of(type));
    pointers(call, moved(send, shift), recv, why);
    pointers(call, send, moved(recv, shift), why);
  }
  // Where one buffer lies within the other, but not as the collective's calls in place have it.
  const std::ptrdiff_t in_place = in_place_distance(good, rank), element = size_of(good.type);
  for (const std::ptrdiff_t off : {-element, element}) {
    pointers(good, send, moved(send, in_place + off), "overlap: pass disjoint buffers, or in");
    pointers(good, moved(recv, off - in_place), recv, "overlap: pass disjoint buffers, or in");
  }

  const std::size_t most = std::numeric_limits<std::size_t>::max(),
                    fits = most / 4 / size_of(good.type) / static_cast<unsigned>(good.parts);
  for (const std::size_t count : {fits + 1, std::size_t{1} << 61, most})
    values([&](Mistake& m) { m.call.count = count; }, fmt::format("count {} of f64 over", count));
  for (const std::size_t count : {good.count, std::size_t{0}})
    for (const int type : {data_type_count, 255})
      values(
          [&](Mistake& m) {
            m.call.type = static_cast<DataType>(type);
            m.call.count = count;
          },
          fmt::format("{} is no data type", type));
  if (facts.reduces) {
    for (const int op : {reduce_op_count, 255})
      values([&](Mistake& m) { m.call.op = static_cast<ReduceOp>(op); },
             fmt::format("{} is no operation", op));
    const auto refuses = [&](DataType type, ReduceOp op, std::string_view wanted) {
      values(
          [&, type, op](Mistake& m) {
            m.call.op = op;
            m.call.type = type;
          },
          fmt::format("{} needs {}, not {}", name_of(op), wanted, name_of(type)),
          ErrorCode::unsupported);
    };
    for (int type = 0; type < data_type_count; ++type)
      if (const auto other = static_cast<DataType>(type); !is_float(other) && !is_complex(other))
        refuses(other, ReduceOp::premul_sum, "a floating-point or complex type");
    refuses(DataType::boolean, ReduceOp::sum, "numbers");
    refuses(DataType::f32_i32, ReduceOp::prod, "numbers");
    refuses(DataType::boolean, ReduceOp::avg, "numbers");
    refuses(DataType::complex_f64, ReduceOp::max, "an integer or floating-point type");
    refuses(DataType::boolean, ReduceOp::min, "an integer or floating-point type");
    refuses(DataType::f16, ReduceOp::bor, "an integer type");
    refuses(DataType::boolean, ReduceOp::bxor, "an integer type");
    refuses(DataType::f64, ReduceOp::land, "an integer type or bool");
    refuses(DataType::i64_i32, ReduceOp::lor, "an integer type or bool");
    refuses(DataType::i32, ReduceOp::minloc, "pairs of a value and an index");
    refuses(DataType::complex_f32, ReduceOp::maxloc, "pairs of a value and an index");
  }
  if (is_scan(good.collective))
    values([&](Mistake& m) { m.call.op = ReduceOp::avg; },
           "avg would divide by another number on each rank: pass sum, and divide",
           ErrorCode::unsupported);
  if (facts.rooted)
    for (const int root : {-1, ranks, 1000000})
      values([&](Mistake& m) { m.call.root = root; },
             fmt::format("root {} is none of the ranks 0 to {}", root, ranks - 1));
  values([&](Mistake& m) { m.options.symmetric = true; }, "`symmetric` is for send_recv");
  values([&](Mistake& m) { m.options.algorithm = "rign"; }, "\"rign\"");
  values([&](Mistake& m) { m.options.algorithm = "barrier"; },
         fmt::format("\"barrier\" serves barrier, not {}", name_of(good.collective)),
         ErrorCode::unsupported);
  values([&](Mistake& m) { m.options.threads = 100000; }, "100000");
  return all;
}

/// The sentence with which every refusal of the collective begins, up to the rank's number.
inline std::string refused_by(Collective collective) {
  return std::string(name_of(collective)) + ": rank ";
}

}  // namespace plait::test
