// One call of a collective with everything checked that can be checked. Works for ranks that are
// threads and for ranks that are processes.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "plait/plait.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"

namespace plait::test {

/// How a call is made: by itself; captured in a graph, which is launched twice, or once in place;
/// alone in a group.
enum class Way { plain, captured, grouped };

struct Case {
  Collective collective = Collective::all_reduce;
  std::string algorithm{};  // empty: chosen
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 1;  // of a block
  bool in_place = false;  // on the ranks that have both buffers
  bool symmetric = false;
  std::size_t send_offset = 0, recv_offset = 0;  // elements from an aligned address; of ordinary
                                                 // memory, ranks differ on top of it
  double scale = 1;
  int root = 0;
  unsigned blocks = 0, threads = 0;
  std::uint64_t seed = 1;
  Way way = Way::plain;  // `captured` and `grouped`: of cases that are served; `captured`: on a
                         // stream of the caller's

  std::string describe() const;
  Call call(int ranks) const;
  CallOptions options() const {
    return {.algorithm = algorithm, .scale = scale, .blocks = blocks, .threads = threads};
  }
};

/// An algorithm of a collective.
struct Subject {
  Collective collective = Collective::all_reduce;
  std::string algorithm;

  // NOLINTBEGIN(google-explicit-constructor): a name stands for the algorithm of all_reduce; an
  // empty one for what is chosen
  Subject(std::string name) : algorithm(std::move(name)) {}
  Subject(const char* name) : algorithm(name) {}
  // NOLINTEND(google-explicit-constructor)
  Subject(Collective c, std::string name) : collective(c), algorithm(std::move(name)) {}
  Case of(Case c) const {
    c.collective = collective;
    c.algorithm = algorithm;
    return c;
  }
  friend std::string test_name(const Subject& subject) {
    return std::string(name_of(subject.collective)) + "_" + subject.algorithm;
  }
};

/// Runs the case and checks the result, the guard bands, the input (as far as it is not received
/// into) and, where all receive the same, that all ranks have the same bits. If the algorithm
/// refuses the case, checks that the refusal is Error(unsupported), the same on all ranks, and that
/// nothing was written. Collective. Reports through GoogleTest; false if anything was wrong.
bool check(Communicator& comm, Arena& arena, const Case& c, StreamRef stream = {});

/// The same of several cases, each in its own arena, that are enqueued one after another
/// without waiting.
bool check_together(Communicator& comm, std::span<Arena* const> arenas, std::span<const Case> cases,
                    StreamRef stream = {});

/// Whether the named algorithm serves the case; true for a chosen one.
bool is_served(const Communicator& comm, const Case& c);

/// Counts that are interesting: around packets, packs and stripes.
std::vector<std::size_t> odd_counts();

/// Names of the registered all-reduce algorithms that the target can run.
std::vector<std::string> all_reduce_algorithms();
/// The same as subjects.
std::vector<Subject> all_reduces();
/// The same for all other collectives but the barrier.
std::vector<Subject> other_algorithms();

/// All of both.
std::vector<Subject> all_algorithms();
/// Every collective but the barrier, without a name: what is chosen.
std::vector<Subject> chosen_ones();

/// Many sums of f64, one after the other in the same symmetric memory without the host in between:
/// call k + 1 must not read or write the memory before call k is done on all ranks. Nothing happens
/// if the algorithm does not serve such calls here. Collective.
void check_repeated_in_place(Communicator& comm, Arena& arena, std::size_t count, int calls,
                             const CallOptions& options);

/// FNV-1a.
std::uint64_t digest(const void* data, std::size_t bytes);

/// Whether all ranks have the same bits. Collective.
bool same_on_all_ranks(Communicator& comm, const void* data, std::size_t bytes);

/// GoogleTest failure of a rank. After many the test gives up by an exception: they all say the
/// same.
void report(const Communicator& comm, const std::string& what);

// The parts of the zoo that run with every algorithm, for threads and for mpirun: all pairs of what
// their names say, of memory and of place (covering.hpp).
void check_all_types_and_operations(Communicator& comm, Arena& arena, const Subject& subject,
                                    const std::vector<std::size_t>& counts);
void check_all_counts(Communicator& comm, Arena& arena, const Subject& subject,
                      const std::vector<DataType>& types);
void check_large(Communicator& comm, Arena& arena, const Subject& subject, std::size_t bytes);
void check_launch_shapes(Communicator& comm, Arena& arena, const Subject& subject);
void check_graphs_and_groups(Communicator& comm, Arena& arena, const Subject& subject,
                             const std::vector<std::size_t>& counts);

/// So many calls of all sorts, without waiting in between, so that ranks run ahead of each other as
/// far as they can.
void check_calls_in_a_row(Communicator& comm, const std::vector<Subject>& subjects,
                          std::uint64_t calls);

}  // namespace plait::test
