// short_ranks CALL END [ROUNDS]: one rank of several, which meet by the variables of torchrun. A
// short program: it creates a communicator, makes one CALL (all_reduce, barrier, all_gather,
// all_to_all, broadcast, or split, an all_reduce in a part), checks the result, and ends:
//   destroy  destroys the communicator, and makes ROUNDS such communicators in all
//   return   returns from main with the communicator still there
// Its exit status is 1 after an error, which it prints. short_ranks_test.sh starts many of them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plait/plait.hpp"
#include "support/data.hpp"

namespace {

using namespace plait;
constexpr std::size_t count = 100;

/// Whole numbers whose sums are exact.
float value(std::uint64_t round, int rank, std::size_t i) {
  return static_cast<float>(
      test::hash(round, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i)) % 1000);
}

/// One call of a communicator, in blocks of `count` elements.
class Call {
 public:
  Call(Communicator& comm, std::uint64_t round)
      : comm_(comm), ranks_(static_cast<std::size_t>(comm.size())), round_(round) {
    for (std::size_t i = 0; i < ranks_ * count; ++i) mine_.push_back(value(round, comm.rank(), i));
  }
  void make(std::string_view name) {
    const std::span<const float> all(mine_), block = all.first(count);
    std::vector<float> got(ranks_ * count);
    const std::span<float> result(got);
    const CallOptions options{.blocking = true};
    if (name == "barrier") {
      comm_.barrier(nullptr, options);
    } else if (name == "all_reduce") {
      comm_.all_reduce(block, result.first(count), ReduceOp::sum, nullptr, options);
      expect(result.first(count), [&](std::size_t, std::size_t i) {
        float sum = 0;
        for (int rank = 0; rank < comm_.size(); ++rank) sum += value(round_, rank, i);
        return sum;
      });
    } else if (name == "all_gather") {
      comm_.all_gather(block, result, nullptr, options);
      expect(result,
             [&](std::size_t b, std::size_t i) { return value(round_, static_cast<int>(b), i); });
    } else if (name == "all_to_all") {
      comm_.all_to_all(all, result, nullptr, options);
      expect(result, [&](std::size_t b, std::size_t i) {
        return value(round_, static_cast<int>(b),
                     static_cast<std::size_t>(comm_.rank()) * count + i);
      });
    } else if (name == "broadcast") {
      comm_.broadcast(block, result.first(count), 0, nullptr, options);
      expect(result.first(count), [&](std::size_t, std::size_t i) { return value(round_, 0, i); });
    } else {
      throw std::runtime_error("no such call");
    }
  }

 private:
  template <class Wanted>
  void expect(std::span<const float> got, Wanted wanted) const {
    for (std::size_t at = 0; at < got.size(); ++at)
      if (got[at] != wanted(at / count, at % count))
        throw std::runtime_error("element " + std::to_string(at) + " is wrong");
  }
  Communicator& comm_;
  std::size_t ranks_;
  std::uint64_t round_;
  std::vector<float> mine_;
};

void make(Communicator& comm, std::string_view call, std::uint64_t round) {
  if (call != "split") return Call(comm, round).make(call);
  std::optional<Communicator> part = comm.split(comm.rank() % 2, comm.rank());
  Call(*part, round).make("all_reduce");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view call = argc > 1 ? argv[1] : "", end = argc > 2 ? argv[2] : "";
  const std::uint64_t rounds = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  std::unique_ptr<Bootstrap> world = make_world_bootstrap();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    auto comm = std::make_unique<Communicator>(Communicator::create(
        round + 1 < rounds ? world->split(0, world->rank()) : std::move(world)));
    make(*comm, call, round);
    if (end == "return") static_cast<void>(comm.release());
  }
  return 0;
} catch (const std::exception& error) {
  std::printf("%s %s: %s\n", argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "", error.what());
  return 1;
}
