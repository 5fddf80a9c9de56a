#include "communicator/calibration/stopwatch.hpp"

#include <algorithm>
#include <limits>

#include "plait/error.hpp"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

Stopwatch::Stopwatch(Communicator& comm)
    : comm_(comm),
      backend_(backend_of(comm)),
      waits_(comm.backend_kind() == BackendKind::host),
      stream_(comm.create_stream()),
      begin_(backend_.create_event()),
      end_(backend_.create_event()) {}

void Stopwatch::enqueue(const MeasuredTask& task, const CallOptions& options) const {
  comm_.enqueue(task.call, task.buffers.send, task.buffers.recv, stream_, options);
}

double Stopwatch::first(const MeasuredTask& task, const CallOptions& options) const {
  const auto work = [&] { enqueue(task, options); };
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_argument)
      throw;
    return never;
  }
  comm_.synchronize(stream_);
  return timed(work);
}

double Stopwatch::many(const MeasuredTask& task, const CallOptions& options, int calls, int rounds,
                       int repeats) const {
  std::function<void()> round = [&] {
    for (int i = 0; i < calls; ++i) {
      enqueue(task, options);
      if (waits_) comm_.synchronize(stream_);
    }
  };
  enqueue(task, options);  // a capture must not be the first to find the memory
  std::unique_ptr<Graph> graph;
  if (!waits_) {
    const DeviceScope device(backend_);
    backend_.begin_capture(stream_.native());
    round();
    graph = backend_.end_capture(stream_.native());
    graph->launch(stream_.native());  // uploads it
    round = [&] { graph->launch(stream_.native()); };
  }
  double least = never;
  for (int repeat = 0; repeat < repeats; ++repeat)
    least = std::min(least, timed([&] {
                       for (int i = 0; i < rounds; ++i) round();
                     }));
  return least / (rounds * calls);
}

double Stopwatch::timed(const std::function<void()>& work) const {
  comm_.barrier(stream_);
  if (waits_) {
    comm_.synchronize(stream_);
    const auto start = Clock::now();
    work();
    comm_.synchronize(stream_);
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  const DeviceScope device(backend_);
  begin_->record(stream_.native());
  work();
  end_->record(stream_.native());
  comm_.synchronize(stream_);
  return end_->milliseconds_since(*begin_) * 1e3;
}

}  // namespace plait
