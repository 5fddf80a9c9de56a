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
#include <stdexcept>
#include <string>
#include <string_view>

#include "fault/ranks/round.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;

/// `split`: a sum in a part.
void make(Communicator& comm, std::string_view call, std::uint32_t number) {
  if (call == "split") {
    std::optional<Communicator> part = comm.split(comm.rank() % 2, comm.rank());
    return make(*part, "all_reduce", number);
  }
  test::Round round(comm, 100, number);
  if (round.enqueue(call, {.blocking = true}) != 1) throw std::runtime_error("no such call");
  if (const std::string_view wrong = round.wrong(); !wrong.empty())
    throw std::runtime_error(std::string(wrong) + " is wrong");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view call = argc > 1 ? argv[1] : "", end = argc > 2 ? argv[2] : "";
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 1;
  std::unique_ptr<Bootstrap> world = make_world_bootstrap();
  for (int round = 0; round < rounds; ++round) {
    auto comm = std::make_unique<Communicator>(Communicator::create(
        round + 1 < rounds ? world->split(0, world->rank()) : std::move(world)));
    make(*comm, call, static_cast<std::uint32_t>(round));
    if (end == "return") static_cast<void>(comm.release());
  }
  return 0;
} catch (const std::exception& error) {
  std::printf("%s %s: %s\n", argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "", error.what());
  return 1;
}
