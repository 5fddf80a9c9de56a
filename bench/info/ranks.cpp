#include "bench/info/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace plait::info {
namespace {

constexpr std::size_t few = 20, many = 500, most_alone = 10;

Statistics run_rank(Communicator& comm) {
  const Buffer<float> data = comm.allocate<float>(many);
  const Stream stream = comm.create_stream();
  const auto call = [&](std::size_t i) {
    comm.all_reduce(data.data() + i, data.data() + i, 1, DataType::f32, ReduceOp::max, stream);
  };
  const auto in_group = [&](std::size_t calls) {
    const Group group;
    for (std::size_t i = 0; i < calls; ++i) call(i);
  };
  for (std::size_t i = 0; i < most_alone; ++i) call(i);
  in_group(few);
  in_group(many);
  comm.synchronize(stream);
  backend_of(comm).begin_capture(stream.native());
  in_group(many);
  backend_of(comm).end_capture(stream.native())->launch(stream.native());
  comm.synchronize(stream);
  return comm.statistics();
}

}  // namespace

Statistics run_sample(BackendKind backend, int ranks) {
  if (backend != BackendKind::host && device_count(backend) < ranks)
    throw Error(ErrorCode::unsupported, fmt::format("{} ranks on {}: there are {} devices", ranks,
                                                    name_of(backend), device_count(backend)));
  std::vector<std::future<Statistics>> running;
  for (auto& bootstrap : make_thread_bootstraps(ranks))
    running.push_back(
        std::async(std::launch::async, [backend, own = std::move(bootstrap)]() mutable {
          Communicator comm = Communicator::create(
              std::move(own), {.backend = backend, .timeout = std::chrono::seconds(30)});
          return run_rank(comm);
        }));
  std::vector<Statistics> all;
  for (auto& rank : running) all.push_back(rank.get());
  return all.front();
}

std::string describe_world() {
  const Communicator comm = make_world_communicator();
  std::array<char, 512> mine{};
  const std::string text = comm.describe();
  std::copy_n(text.begin(), std::min(text.size(), mine.size() - 1), mine.begin());
  std::string lines;
  for (const auto& line : comm.bootstrap().all_gather(mine))
    lines += line.data() + std::string("\n");
  return comm.rank() == 0 ? lines : "";
}

}  // namespace plait::info
