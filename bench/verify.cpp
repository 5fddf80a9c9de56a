#include "bench/verify.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "bench/exact/exact.hpp"

namespace plait::bench {
namespace {

constexpr unsigned char poison = 0xa5;

/// Fills and checks the buffers of one rank.
class Verifier {
 public:
  Verifier(Communicator& comm, NativeStream stream, const Task& task, std::uint32_t seed)
      : backend_(backend_of(comm)),
        stream_(stream),
        task_(task),
        data_{.type = task.call.type,
              .op = task.call.op,
              .rank = task.rank,
              .ranks = task.ranks,
              .seed = seed,
              .scale = task.call.scale,
              .terms = terms_of(task.call.collective, task.rank, task.ranks)} {}

  void fill() const {
    if (task_.send != nullptr)
      exact::fill(backend_, stream_, data_, const_cast<void*>(task_.send), send_count());
  }
  void poison_output() const {
    if (task_.recv != nullptr)
      backend_.fill(recv() - guard_bytes, poison, task_.recv_bytes() + 2 * guard_bytes, stream_);
  }
  std::size_t count_wrong() const {
    std::size_t wrong = 0;
    if (task_.recv != nullptr) wrong += count_wrong_results();
    // In place, the output or its guard bands lie in the input.
    if (task_.send != nullptr && !task_.in_place)
      wrong += exact::count_changed(backend_, stream_, data_, task_.send, send_count());
    if (task_.recv != nullptr && !nested()) wrong += count_spoilt();
    return wrong;
  }

 private:
  std::byte* recv() const { return static_cast<std::byte*>(task_.recv); }
  std::size_t send_count() const { return task_.send_bytes() / size_of(task_.call.type); }
  /// Whether the bytes beside the output are input.
  bool nested() const {
    return task_.in_place && task_.send != nullptr && task_.send_bytes() > task_.recv_bytes();
  }

  std::size_t count_wrong_results() const {
    const Call& call = task_.call;
    const std::size_t own = task_.own_begin();
    // Wrong elements in a block of the output: `reduced` expects the reduction from element `first`
    // on, `moved` the input of rank `from`.
    const auto reduced = [&](std::size_t first) {
      exact::Case wanted = data_;
      wanted.first = first;
      return exact::count_wrong(backend_, stream_, wanted, recv(), task_.recv_count());
    };
    const auto moved = [&](int block, int from, std::size_t first) {
      exact::Case wanted = data_;
      wanted.rank = from;
      wanted.first = first;
      return exact::count_changed(backend_, stream_, wanted,
                                  recv() + static_cast<std::size_t>(block) * call.block_bytes(),
                                  call.count);
    };
    const auto from_all = [&](std::size_t first) {
      std::size_t wrong = 0;
      for (int rank = 0; rank < task_.ranks; ++rank) wrong += moved(rank, rank, first);
      return wrong;
    };
    switch (call.collective) {
      case Collective::reduce_scatter:
        return reduced(own);
      case Collective::all_gather:
      case Collective::gather:
        return from_all(0);
      case Collective::all_to_all:
        return from_all(own);
      case Collective::broadcast:
        return moved(0, call.root, 0);
      case Collective::scatter:
        return moved(0, call.root, own);
      case Collective::send_recv:
        return moved(0, (task_.rank + task_.ranks - 1) % task_.ranks, 0);
      case Collective::exscan:
        if (task_.rank != 0) return reduced(0);
        return task_.in_place ? moved(0, 0, 0) : count_touched(recv(), task_.recv_bytes());
      default:
        return reduced(0);
    }
  }

  /// Bytes around the output that are no longer poison.
  std::size_t count_spoilt() const {
    return count_touched(recv() - guard_bytes, guard_bytes) +
           count_touched(recv() + task_.recv_bytes(), guard_bytes);
  }
  std::size_t count_touched(const std::byte* from, std::size_t count) const {
    std::vector<unsigned char> bytes(count);
    backend_.copy(bytes.data(), from, count, stream_);
    backend_.synchronize(stream_);
    return static_cast<std::size_t>(std::count_if(
        bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != poison; }));
  }

  Backend& backend_;
  NativeStream stream_;
  const Task& task_;
  exact::Case data_;
};

std::size_t count_early(Communicator& comm, NativeStream stream, Contender& barrier,
                        const Task& task) {
  using SharedClock = std::chrono::steady_clock;  // the same for all processes of a machine
  constexpr auto delay = std::chrono::milliseconds(2);
  struct Times {
    SharedClock::time_point entered, left;
  };
  std::size_t early = 0;
  for (int late = 0; late < comm.size(); ++late) {
    comm.bootstrap().barrier();
    if (comm.rank() == late) std::this_thread::sleep_for(delay);
    Times times{.entered = SharedClock::now(), .left = {}};
    barrier.enqueue(task, stream);
    comm.synchronize(stream_ref(stream));
    times.left = SharedClock::now();
    const auto all = comm.bootstrap().all_gather(times);
    early += static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const Times& rank) {
      return rank.left < all[static_cast<std::size_t>(late)].entered;
    }));
  }
  return early;
}

}  // namespace

void fill_input(Communicator& comm, NativeStream stream, const Task& task, std::uint32_t seed) {
  Verifier(comm, stream, task, seed).fill();
  backend_of(comm).synchronize(stream);
}

std::size_t count_wrong(Communicator& comm, NativeStream stream, Contender& contender,
                        const Task& task, std::uint32_t seed) {
  if (task.call.collective == Collective::barrier)
    return count_early(comm, stream, contender, task);
  const Verifier verifier(comm, stream, task, seed);
  verifier.poison_output();
  verifier.fill();
  comm.barrier(stream_ref(stream));  // no rank writes into a buffer that its owner still fills
  // Some contenders call at once, and not in the stream's order.
  comm.synchronize(stream_ref(stream));
  contender.enqueue(task, stream);
  comm.barrier(stream_ref(stream));  // the check sees a peer's late write, too
  comm.synchronize(stream_ref(stream));
  const auto all = comm.bootstrap().all_gather(verifier.count_wrong());
  return std::accumulate(all.begin(), all.end(), std::size_t{0});
}

}  // namespace plait::bench
