#include "bench/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/memory.hpp"
#include "core/environment.hpp"
#include "symm_mem/window.hpp"

namespace plait::bench {

double median_milliseconds(Communicator& comm, NativeStream stream, int repeats,
                           const std::function<void()>& work) {
  const auto begin = backend_of(comm).create_event(), end = backend_of(comm).create_event();
  std::vector<double> times;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    comm.barrier(stream_ref(stream));
    begin->record(stream);
    if (work) work();
    end->record(stream);
    comm.synchronize(stream_ref(stream));
    const auto all = comm.bootstrap().all_gather(work ? end->milliseconds_since(*begin) : 0.0);
    if (repeat != 0)
      times.push_back(*std::max_element(all.begin(), all.end()));  // the first one warms up
  }
  const auto middle = times.begin() + repeats / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

namespace {

constexpr int copies = 4, repeats = 7;

}  // namespace

Link measure_link(Communicator& comm, NativeStream stream) {
  if (comm.size() == 1) return {0, "none: a single rank has no link"};
  if (comm.bootstrap().nodes() > 1) return {0, "none: the ranks are on several nodes"};
  const bool host = comm.backend_kind() == BackendKind::host;
  const std::size_t bytes = std::size_t{host ? 64u : 256u} << 20;
  const auto window = comm.allocate_bytes(bytes);
  const Allocation local = ordinary_memory(comm)(bytes);
  Backend& backend = backend_of(comm);
  backend.fill(local.data, 1, bytes, stream);  // keeps page faults of host memory out of the times
  const int next = comm.rank() + 1;
  const bool takes_part = comm.rank() % 2 == 0 && next < comm.size();
  void* to = nullptr;
  const void* from = nullptr;
  if (takes_part) {
    to = host ? local.data : window->peer(next);
    from = host ? window->peer(next) : local.data;
  }
  std::function<void()> work;
  if (takes_part)
    work = [&] {
      for (int i = 0; i < copies; ++i) backend.copy(to, from, bytes, stream);
    };
  const double ms = median_milliseconds(comm, stream, repeats, work);
  const double gb_per_s = static_cast<double>(bytes) * copies / (ms * 1e6);
  return {gb_per_s, fmt::format("{} of {}, ranks 0->1, 2->3, ... one way at a time; median of {} "
                                "repeats of {} copies, slowest pair",
                                host ? "memcpy from the neighbour's window"
                                     : "copy engine into the neighbour's symmetric memory",
                                format_bytes(bytes), repeats, copies)};
}

}  // namespace plait::bench
