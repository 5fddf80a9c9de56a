#include "interop/pmpi/statistics.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <string>

#include "core/log.hpp"

namespace plait::pmpi {
namespace {

constexpr std::size_t forms = 3;
constexpr std::array names = {
#define PLAIT_NAME(NAME, INAME) "MPI_" #NAME, "MPI_" #INAME, "MPI_" #NAME "_init",
    PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)
#undef PLAIT_NAME
};
constexpr std::array reasons = {"served",
                                "PLAIT_PMPI=off",
                                "one rank",
                                "an intercommunicator",
                                "until the communicator's next blocking call",
                                "a type or an operation that Plait lacks",
                                "failed"};

struct Counted {
  std::array<std::atomic<std::uint64_t>, reasons.size()> calls{};
  std::atomic<std::uint64_t> nanoseconds{0};  // of those that were served
};
std::array<Counted, names.size()> all;

}  // namespace

bool Tally::counts() noexcept {
  static const bool shown = log::level() >= log::Level::info;
  return shown;
}

void Tally::count(Why why) noexcept {
  Counted& counted =
      all[static_cast<std::size_t>(function_) * forms + static_cast<std::size_t>(form_)];
  counted.calls[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  if (why != Why::served) return;
  const auto taken = std::chrono::steady_clock::now() - start_;
  counted.nanoseconds.fetch_add(static_cast<std::uint64_t>(taken / std::chrono::nanoseconds(1)),
                                std::memory_order_relaxed);
}

void report() noexcept try {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto calls = [&](std::size_t why) { return all[i].calls[why].load(); };
    std::string line;
    for (std::size_t why = 0; why < reasons.size(); ++why) {
      if (calls(why) == 0) continue;
      fmt::format_to(std::back_inserter(line), "{}{} {}", line.empty() ? "" : ", ", calls(why),
                     reasons[why]);
      if (why == 0)
        fmt::format_to(std::back_inserter(line), " in {:.3g} ms",
                       static_cast<double>(all[i].nanoseconds.load()) * 1e-6);
    }
    if (!line.empty()) log::info("libplait-pmpi: {}: {}", names[i], line);
  }
} catch (const std::exception&) {  // no memory for a line
}

}  // namespace plait::pmpi
