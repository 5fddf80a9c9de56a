// The parts of the zoo that run with every algorithm.
#include "support/zoo.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "support/covering.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

/// Memory and place: a factor of all cross products.
constexpr std::size_t places = 4;

/// The case there, with a misalignment, a root and data that depend on all of it.
Case placed(const Communicator& comm, Case c, std::size_t place) {
  c.symmetric = place / 2 == 1;
  c.in_place = place % 2 == 1;
  c.seed = hash(c.seed, place, c.count);
  c.send_offset = c.seed % 3;  // aligned, and off by one or two elements
  c.recv_offset = (c.seed >> 8) % 3;
  c.root = static_cast<int>((c.seed >> 16) % static_cast<unsigned>(comm.size()));
  return c;
}

/// Says which pairs meet with what: otherwise for each algorithm and number of ranks.
std::uint64_t seed_of(const Communicator& comm, const Subject& subject) {
  return digest(subject.algorithm.data(), subject.algorithm.size()) +
         static_cast<unsigned>(subject.collective) + static_cast<unsigned>(comm.size());
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
  const std::size_t operations = facts_of(subject.collective).reduces ? reduce_op_count : 1;
  const auto of = [&](std::size_t type, std::size_t op) {
    return subject.of({.type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)});
  };
  std::vector<bool> tried;
  for (std::size_t type = 0; type < data_type_count; ++type)
    for (std::size_t op = 0; op < operations; ++op) tried.push_back(is_tried(comm, of(type, op)));
  for (const Levels& levels :
       covering({data_type_count, operations, counts.size(), places}, seed_of(comm, subject),
                [&](const Levels& l) { return tried[l[0] * operations + l[1]]; })) {
    Case c = of(levels[0], levels[1]);
    c.count = counts[levels[2]];
    c.seed = hash(levels[0], levels[1], c.count);
    if (c.op == ReduceOp::premul_sum) c.scale = c.seed % 2 == 0 ? 0.5 : 2.0;
    check(comm, arena, placed(comm, c, levels[3]));
  }
}

void check_all_counts(Communicator& comm, Arena& arena, const Subject& subject,
                      const std::vector<DataType>& types) {
  const auto counts = odd_counts();
  for (const Levels& levels :
       covering({counts.size(), places, types.size()}, seed_of(comm, subject)))
    check(
        comm, arena,
        placed(comm, subject.of({.type = types[levels[2]], .count = counts[levels[0]], .seed = 77}),
               levels[1]));
}

void check_large(Communicator& comm, Arena& arena, const Subject& subject, std::size_t bytes) {
  bytes /= static_cast<std::size_t>(parts_of(subject.collective, comm.size()));
  // One type in one place, and the next of both with one rank more.
  constexpr DataType types[] = {DataType::u8, DataType::f32, DataType::bf16};
  const std::uint64_t first = seed_of(comm, subject);
  for (std::uint64_t i = first; i < first + unless_full(1, std::size(types) * places); ++i) {
    const DataType type = types[i % std::size(types)];
    Case c = subject.of({.type = type, .count = bytes / size_of(type) + 1, .seed = 99});
    if (type == DataType::u8) c.count /= 5;
    check(comm, arena, placed(comm, c, i % places));
  }
}

void check_launch_shapes(Communicator& comm, Arena& arena, const Subject& subject) {
  constexpr unsigned blocks[] = {1, 2, 3, 5}, threads[] = {1, 2, 3, 4};
  constexpr std::size_t counts[] = {1, 4096, 4099};
  for (const Levels& levels :
       covering({std::size(blocks), std::size(threads), std::size(counts), places},
                seed_of(comm, subject)))
    check(comm, arena,
          placed(comm,
                 subject.of({.type = DataType::i32,
                             .count = counts[levels[2]],
                             .blocks = blocks[levels[0]],
                             .threads = threads[levels[1]],
                             .seed = 5}),
                 levels[3]));
}

void check_graphs_and_groups(Communicator& comm, Arena& arena, const Subject& subject,
                             const std::vector<std::size_t>& counts) {
  const Stream stream = comm.create_stream();
  std::uint64_t seed = 0;
  for (const Way way : {Way::captured, Way::grouped})
    for (std::size_t place = 0; place < places; ++place)
      for (const std::size_t count : counts) {
        const Case c = subject.of({.type = DataType::i32,
                                   .count = count,
                                   .in_place = place % 2 == 1,
                                   .symmetric = place / 2 == 1,
                                   .root = comm.size() - 1,
                                   .seed = ++seed,
                                   .way = way});
        if (is_served(comm, c)) check(comm, arena, c, stream);
      }
}

void check_calls_in_a_row(Communicator& comm, const std::vector<Subject>& subjects,
                          std::uint64_t calls) {
  constexpr std::size_t at_once = 10, longest = 5000;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<Arena*> each;
  for (std::size_t i = 0; i < at_once; ++i) {
    arenas.push_back(std::make_unique<Arena>(
        comm, (longest * static_cast<std::size_t>(comm.size()) + 10) * sizeof(std::uint64_t)));
    each.push_back(arenas.back().get());
  }
  const Stream stream = comm.create_stream();
  for (std::uint64_t i = 0; i < calls;) {
    std::vector<Case> cases;
    while (cases.size() < at_once) {
      const std::uint64_t h = hash(i++);
      const Case c = subjects[h % subjects.size()].of(
          {.type = DataType::u64,
           .count = 1 + (h >> 10) % (i % 7 == 0 ? longest : 200),
           .in_place = (h >> 32) % 2 == 0,
           .symmetric = (h >> 33) % 2 == 0,
           .root = static_cast<int>((h >> 34) % static_cast<unsigned>(comm.size())),
           .seed = h});
      if (is_served(comm, c)) cases.push_back(c);
    }
    check_together(comm, each, cases, stream);
  }
  comm.bootstrap().barrier();  // no rank frees memory that a slower one still checks
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
