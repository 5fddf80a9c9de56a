// The frame of a program whose processes are ranks: plait-bench and plait-tune.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "bench/peers/mpi.hpp"
#include "plait/bootstrap.hpp"

namespace plait::bench {

/// Exit codes; --help explains them.
inline constexpr int ok = 0, wrong_results = 1, bad_request = 2, broke = 3;
inline constexpr const char* exit_codes =
    "Exit code: 0, 1 if results are wrong, 2 if the request can't be served, 3 if something broke.";

/// Whether no rank has a reason against its flags. The first rank that has prints its own, because
/// the others would wait for it. `wrong`: this rank's; empty: none. Collective.
bool are_right(Bootstrap& world, const char* program, const std::string& wrong);

/// The exit code of `body`, which is one rank's work and may still set `rank`. Prints its error:
/// rank 0 one that all ranks meet together. If one rank alone has an error, for which the others
/// may be waiting, ends all processes.
int exit_code(const char* program, const MpiSession& mpi, const int& rank,
              const std::function<int()>& body);

/// The same with all processes that were started together, a rank each.
int run_program(const char* program, const MpiSession& mpi,
                const std::function<int(std::unique_ptr<Bootstrap>)>& body);

}  // namespace plait::bench
