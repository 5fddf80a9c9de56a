// Flash at every depth of its pipeline and with both kinds of copies: the same bits, and a line
// with the time of each. On the host target only that it is right.
//   PLAIT_FLASH_BYTES    "16M,64M,256M": sizes instead of these
//   PLAIT_FLASH_SHAPE    "64x256": blocks and threads instead of flash's own choice
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/all_reduce/flash/descriptor.hpp"
#include "support/data.hpp"
#include "support/ranks.hpp"
#include "zoo/flash_depth/kernel.hpp"

namespace plait::test {
namespace {

constexpr StaticName variants[] = {"flash_own1",  "flash_own2",  "flash_own3", "flash_own4",
                                   "flash_bulk2", "flash_bulk3", "flash_bulk4"};

template <int Index>
class Variant final : public flash::FlashAlgorithm {
 public:
  Variant() : FlashAlgorithm(Index >= 4) {}
  StaticName name() const override { return variants[Index]; }
  std::string_view summary() const override {
    return "flash with copies of one kind, at one depth";
  }
};
const AlgorithmRegistration<Variant<0>> own1;
const AlgorithmRegistration<Variant<1>> own2;
const AlgorithmRegistration<Variant<2>> own3;
const AlgorithmRegistration<Variant<3>> own4;
const AlgorithmRegistration<Variant<4>> bulk2;
const AlgorithmRegistration<Variant<5>> bulk3;
const AlgorithmRegistration<Variant<6>> bulk4;

std::vector<std::size_t> sizes() {
  const char* given = std::getenv("PLAIT_FLASH_BYTES");
  if (given == nullptr) given = target() == BackendKind::host ? "2,6000,1M" : "2,6000,16M,64M,256M";
  std::vector<std::size_t> result;
  std::istringstream list(given);
  for (std::string item; std::getline(list, item, ',');)
    result.push_back(std::stoul(item) << (item.back() == 'M' ? 20 : item.back() == 'K' ? 10 : 0));
  return result;
}

CallOptions options_for(const char* algorithm) {
  CallOptions options{.algorithm = algorithm};
  if (const char* shape = std::getenv("PLAIT_FLASH_SHAPE"))
    std::sscanf(shape, "%ux%u", &options.blocks, &options.threads);
  return options;
}

class FlashDepth : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, FlashDepth, testing::Values(2, 3, 4, 8),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// Microseconds a call of the slowest rank, the best of five replays of a graph.
double measure(Communicator& comm, const Stream& stream, int calls,
               const std::function<void()>& call) {
  Backend& backend = backend_of(comm);
  backend.begin_capture(stream.native());
  for (int i = 0; i < calls; ++i) call();
  const auto graph = backend.end_capture(stream.native());
  const auto begin = backend.create_event(), end = backend.create_event();
  double best = 1e30;
  for (int repeat = 0; repeat < 6; ++repeat) {  // the first one uploads the graph
    comm.bootstrap().barrier();
    comm.barrier(stream);
    begin->record(stream.native());
    graph->launch(stream.native());
    end->record(stream.native());
    comm.synchronize(stream);
    const auto all = comm.bootstrap().all_gather(end->milliseconds_since(*begin) * 1e3 / calls);
    if (repeat > 0) best = std::min(best, *std::max_element(all.begin(), all.end()));
  }
  return best;
}

void check(Communicator& comm, int rank) {
  const DeviceScope device(backend_of(comm));
  const std::vector<std::size_t> all = sizes();
  const std::size_t most = *std::max_element(all.begin(), all.end());
  const auto send = comm.allocate<bf16>(most / sizeof(bf16)),
             recv = comm.allocate<bf16>(most / sizeof(bf16));
  const Stream stream = comm.create_stream();
  // Data repeat after a prime number of elements, so that large ones are made quickly.
  constexpr std::size_t period = 99991;
  std::vector<bf16> terms(most / sizeof(bf16)), sums(terms.size()), found(terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i] = i < period ? element<bf16>(3, rank, i, ReduceOp::sum) : terms[i - period];
    sums[i] = i < period ? to<bf16>(expected<bf16>(3, comm.size(), i, ReduceOp::sum, 1))
                         : sums[i - period];
  }
  comm.copy(send.data(), terms.data(), most, stream);
  for (const std::size_t bytes : all) {
    const std::size_t count = bytes / sizeof(bf16);
    for (const StaticName variant : variants) {
      if (variant.find("bulk") != variant.npos && backend_of(comm).info().facts.bulk_threads == 0)
        continue;
      const CallOptions options = options_for(variant.data());
      const auto call = [&] {
        comm.all_reduce(send.data(), recv.data(), count, DataType::bf16, ReduceOp::sum, stream,
                        options);
      };
      backend_of(comm).fill(recv.data(), 0xa5, bytes, stream.native());
      comm.synchronize(stream);
      comm.bootstrap().barrier();
      call();
      const auto expect_sums = [&] {
        comm.copy(found.data(), recv.data(), bytes, stream);
        comm.synchronize(stream);
        EXPECT_EQ(std::memcmp(found.data(), sums.data(), bytes), 0)
            << variant << ", " << bytes << " bytes, rank " << rank;
      };
      expect_sums();
      if (target() == BackendKind::host) continue;
      const double us = measure(comm, stream, bytes < (1 << 20) ? 100 : 10, call);
      const double busbw =
          static_cast<double>(bytes) / us * 2 * (comm.size() - 1) / comm.size() * 1e-3;
      expect_sums();
      if (rank == 0)
        fmt::print("{} ranks  {:>10} bytes  {:<12} {:>9.1f} us  {:>6.1f} GB/s\n", comm.size(),
                   bytes, variant, us, busbw);
    }
  }
  comm.bootstrap().barrier();
}

TEST_P(FlashDepth, EqualResults) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam());
  run_ranks(GetParam(), check);
}

}  // namespace
}  // namespace plait::test
