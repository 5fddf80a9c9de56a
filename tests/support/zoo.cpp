// The parts of the zoo that run with every algorithm.
#include "support/zoo.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

/// Variants of memory and place, each with its own misalignment, root and data.
std::vector<Case> variants(const Communicator& comm, const Case& base) {
  std::vector<Case> cases;
  for (const bool symmetric : {false, true})
    for (const bool in_place : {false, true}) {
      Case c = base;
      c.symmetric = symmetric;
      c.in_place = in_place;
      c.seed = hash(base.seed, cases.size(), base.count);
      c.send_offset = c.seed % 3;  // aligned, and off by one or two elements
      c.recv_offset = (c.seed >> 8) % 3;
      c.root = static_cast<int>((c.seed >> 16) % static_cast<unsigned>(comm.size()));
      cases.push_back(c);
    }
  return cases;
}

/// Of the pairs of a type and an operation that calls refuse by themselves, none (error_test has
/// them). Of the operations on bits, which share one code, a third, but all for each operation. An
/// algorithm without kernels for a type refuses it once. The order of accesses does not depend on
/// any of this, so the race checker gets a few.
bool is_tried(const Communicator& comm, const Case& c) {
  const int type = static_cast<int>(c.type), op = static_cast<int>(c.op);
  if (c.op == ReduceOp::avg && is_scan(c.collective)) return false;
  if (!facts_of(c.collective).reduces) return !under_tsan || type % 5 == 0;
  if (!is_reduced(c.type, c.op)) return false;
  if (under_tsan) return type % 5 == 0 && op % 4 == 0;
  if (c.op >= ReduceOp::band && is_integer(c.type)) return (type + op) % 3 == 0;
  if (!is_rare(in_words(c.call(comm.size())))) return true;
  Case one = c;
  one.count = 1;
  return c.op == ReduceOp::prod || c.op == ReduceOp::minloc || is_served(comm, one);
}

}  // namespace

std::vector<std::size_t> odd_counts() {
  return {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1024, 4099};
}

void check_all_types_and_operations(Communicator& comm, Arena& arena, const Subject& subject,
                                    const std::vector<std::size_t>& counts) {
  for (int type = 0; type < data_type_count; ++type)
    for (int op = 0; op < (facts_of(subject.collective).reduces ? reduce_op_count : 1); ++op) {
      Case base =
          subject.of({.type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)});
      if (!is_tried(comm, base)) continue;
      const bool scaled = base.op == ReduceOp::premul_sum;
      for (const std::size_t count : counts)
        for (const double scale : scaled ? std::vector{0.5, 2.0} : std::vector{1.0}) {
          base.count = count;
          base.scale = scale;
          base.seed = hash(static_cast<unsigned>(type), static_cast<unsigned>(op), count);
          for (const Case& c : variants(comm, base)) check(comm, arena, c);
        }
    }
}

void check_all_counts(Communicator& comm, Arena& arena, const Subject& subject,
                      const std::vector<DataType>& types) {
  for (const DataType type : types)
    for (const std::size_t count : odd_counts())
      for (const Case& c : variants(comm, subject.of({.type = type, .count = count, .seed = 77})))
        check(comm, arena, c);
}

void check_large(Communicator& comm, Arena& arena, const Subject& subject, std::size_t bytes) {
  bytes /= static_cast<std::size_t>(parts_of(subject.collective, comm.size()));
  check(comm, arena,
        subject.of({.type = DataType::u8,
                    .count = bytes / 5,
                    .symmetric = true,
                    .send_offset = 1,
                    .root = comm.size() - 1,
                    .seed = 98}));
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    const auto cases =
        variants(comm, subject.of({.type = type, .count = bytes / size_of(type) + 1, .seed = 99}));
    check(comm, arena, cases[1]);  // ordinary, in place
    check(comm, arena, cases[2]);  // symmetric, out of place
  }
}

void check_launch_shapes(Communicator& comm, Arena& arena, const Subject& subject) {
  // Two variants of the four in turn: all of them with every number of blocks, of threads and of
  // elements, and with every pair of these.
  bool odd = false;
  for (const unsigned blocks : {1u, 2u, 3u, 5u}) {
    for (const unsigned threads : {1u, 2u, 3u, 4u})
      for (const std::size_t count : {1u, 4096u, 4099u}) {
        const auto cases = variants(comm, subject.of({.type = DataType::i32,
                                                      .count = count,
                                                      .blocks = blocks,
                                                      .threads = threads,
                                                      .seed = 5}));
        for (std::size_t i = 0; i < cases.size(); ++i)
          if ((i == 1 || i == 2) == odd) check(comm, arena, cases[i]);
        odd = !odd;
      }
    odd = !odd;
  }
}

void check_repeated_in_place(Communicator& comm, Arena& arena, std::size_t count, int calls,
                             const CallOptions& options) {
  const Case served{.algorithm = std::string(options.algorithm),
                    .type = DataType::f64,
                    .count = count,
                    .in_place = true,
                    .symmetric = true};
  if (!is_served(comm, served)) return;  // some want nodes of equal size
  // Each call after the first multiplies the sum by the number of ranks. After 8 calls of 8 ranks,
  // f64 still has all of its digits. So every 8 calls begin with new data.
  constexpr std::size_t calls_per_round = 8;
  const std::size_t bytes = count * sizeof(double), most = static_cast<std::size_t>(calls),
                    rounds = (most + calls_per_round - 1) / calls_per_round;
  constexpr std::uint64_t seed = 4711;
  DeviceArray &series = arena.symmetric_send, &memory = arena.symmetric_recv;
  series.place(0, rounds * bytes);
  memory.place(0, bytes);
  for (std::size_t i = 0; i < rounds * count; ++i) {
    const auto x = element<double>(seed, comm.rank(), i, ReduceOp::sum);
    std::memcpy(series.image() + i * sizeof x, &x, sizeof x);
  }
  series.upload({});
  memory.upload({});
  const double factor = std::pow(comm.size(), calls_per_round - 1);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto* const message = static_cast<std::byte*>(series.device()) + round * bytes;
    backend_of(comm).copy(memory.device(), message, bytes, nullptr);
    for (std::size_t call = 0; call < calls_per_round; ++call)
      comm.all_reduce(memory.device(), memory.device(), count, DataType::f64, ReduceOp::sum, {},
                      options);
    backend_of(comm).copy(message, memory.device(), bytes, nullptr);
  }
  series.download({});
  memory.download({});
  comm.synchronize();
  for (const DeviceArray* array : {&series, &memory})
    if (const std::string damage = array->damage(); !damage.empty())
      report(comm, options.algorithm + ": " + damage);
  for (std::size_t i = 0; i < rounds * count; ++i) {
    double got = 0;
    std::memcpy(&got, series.image() + i * sizeof got, sizeof got);
    const auto wanted = expected<double>(seed, comm.size(), i, ReduceOp::sum, 1) * factor;
    if (got != wanted)
      return report(comm, fmt::format("{}: element {} of {} is {} instead of {} in round {}",
                                      options.algorithm, i % count, count, got, wanted, i / count));
  }
}

}  // namespace plait::test
