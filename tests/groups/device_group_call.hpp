// One call of a collective on a device group, from one thread, with everything checked that can be
// checked.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "plait/plait.hpp"
#include "support/by_name.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// The memory of all devices, ordinary and symmetric.
class GroupArena {
 public:
  static constexpr std::size_t capacity = std::size_t{1} << 18;

  explicit GroupArena(DeviceGroup& gpus) : gpus_(gpus) {
    for (auto* arrays : {&send, &recv}) add(*arrays, nullptr);
    for (auto* arrays : {&symmetric_send, &symmetric_recv}) {
      auto buffers = gpus.allocate<std::byte>(capacity + 2 * DeviceArray::guard);
      add(*arrays, &buffers);
    }
  }
  ~GroupArena() {
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      Backend& backend = backend_of(gpus_.device(rank));
      const DeviceScope device(backend);
      backend.synchronize_device();  // a test that was left in the middle may have copies under way
      for (auto* arrays : {&send, &recv, &symmetric_send, &symmetric_recv})
        (*arrays)[static_cast<std::size_t>(rank)].reset();
    }
  }
  GroupArena(const GroupArena&) = delete;
  GroupArena& operator=(const GroupArena&) = delete;

  std::vector<std::unique_ptr<DeviceArray>> send, recv, symmetric_send, symmetric_recv;  // by rank

 private:
  void add(std::vector<std::unique_ptr<DeviceArray>>& arrays,
           std::vector<Buffer<std::byte>>* buffers) {
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      Backend& backend = backend_of(gpus_.device(rank));
      const DeviceScope device(backend);
      arrays.push_back(buffers != nullptr
                           ? std::make_unique<DeviceArray>(
                                 backend, std::move((*buffers)[static_cast<std::size_t>(rank)]))
                           : std::make_unique<DeviceArray>(backend, capacity));
    }
  }

  DeviceGroup& gpus_;
};

struct GroupCase {
  Call call{};  // without `symmetric` and `in_place`
  bool in_place = false, symmetric = false;
  std::string algorithm{};  // empty: chosen
  std::uint64_t seed = 1;

  std::string describe() const {
    return fmt::format("{} of {} {}, {}, root {}, {}, {} memory", name_of(call.collective),
                       call.count, name_of(call.type), name_of(call.op), call.root,
                       in_place ? "in place" : "out of place",
                       symmetric ? "symmetric" : "ordinary");
  }
};

/// A case on all devices: `upload`, `enqueue`, and after a synchronisation `check`.
template <class T>
class GroupRun {
 public:
  using Streams = DeviceGroup::Streams;

  GroupRun(DeviceGroup& gpus, GroupArena& arena, GroupCase c)
      : gpus_(gpus), case_(std::move(c)), call_(case_.call) {
    const auto facts = facts_of(call_.collective);
    call_.parts = parts_of(call_.collective, gpus.size());
    for (int rank = 0; rank < gpus.size(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      Side side{};
      side.sends = has(facts.send, call_, rank);
      side.receives = has(facts.recv, call_, rank);
      side.in_place =
          case_.in_place && ((side.sends && side.receives) || (facts.rooted && case_.symmetric));
      side.from = (case_.symmetric ? arena.symmetric_send : arena.send)[index].get();
      side.to = side.in_place ? side.from
                              : (case_.symmetric ? arena.symmetric_recv : arena.recv)[index].get();
      // In place, the smaller buffer begins somewhere in the larger one.
      const auto distance =
          side.in_place ? in_place_distance(call_, facts.rooted ? call_.root : rank) : 0;
      side.send_begin = static_cast<std::size_t>(std::max<std::ptrdiff_t>(-distance, 0));
      side.recv_begin = static_cast<std::size_t>(std::max<std::ptrdiff_t>(distance, 0));
      sides_.push_back(side);
    }
    send.resize(sides_.size());
    recv.resize(sides_.size());
    place();
  }

  std::vector<const void*> send;  // what to pass
  std::vector<void*> recv;

  void upload(Streams streams = {}) { on_all(streams, &DeviceArray::upload); }
  void download(Streams streams = {}) { on_all(streams, &DeviceArray::download); }
  void enqueue(Streams streams = {}) {
    enqueue_by_name(gpus_, call_, send, recv, streams,
                    {.algorithm = case_.algorithm, .scale = call_.scale});
  }
  /// By the function that takes any collective.
  void enqueue_generic(Streams streams = {}) {
    gpus_.enqueue(case_.call, send, recv, streams, {.scale = call_.scale});
  }

  /// Fetches the results.
  void check(Streams streams = {}) {
    download(streams);
    gpus_.synchronize(streams);
    for (int rank = 0; rank < gpus_.size(); ++rank) check(rank);
  }
  void expect_untouched() {
    download();
    gpus_.synchronize();
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      const Side& side = sides_[static_cast<std::size_t>(rank)];
      if (!side.in_place)
        EXPECT_TRUE(side.to->untouched()) << "rank " << rank << ": something was enqueued";
      else check_input(rank, 0);
    }
  }

 private:
  struct Side {
    bool sends, receives, in_place;
    DeviceArray *from, *to;
    std::size_t send_begin, recv_begin;  // bytes from where the data begin
  };

  void place() {
    for (std::size_t rank = 0; rank < sides_.size(); ++rank) {
      const Side& side = sides_[rank];
      const std::size_t sent = side.sends ? send_bytes(call_) : 0,
                        received = side.receives ? recv_bytes(call_) : 0;
      // In ordinary memory, ranks differ in where their data lie.
      const std::size_t shift = case_.symmetric ? 0 : rank % 3 * sizeof(T);
      if (!side.in_place) side.to->place(2 * shift, received);
      side.from->place(shift,
                       side.in_place ? std::max(send_bytes(call_), recv_bytes(call_)) : sent);
      for (std::size_t i = 0; i < sent / sizeof(T); ++i) {
        const T x = element<T>(case_.seed, static_cast<int>(rank), i, call_.op);
        std::memcpy(side.from->image() + side.send_begin + i * sizeof(T), &x, sizeof(T));
      }
      if (side.sends) send[rank] = static_cast<std::byte*>(side.from->device()) + side.send_begin;
      if (side.receives) recv[rank] = static_cast<std::byte*>(side.to->device()) + side.recv_begin;
    }
  }

  void on_all(const Streams& streams, void (DeviceArray::*move)(StreamRef)) {
    for (std::size_t rank = 0; rank < sides_.size(); ++rank) {
      const DeviceScope device(backend_of(gpus_.device(static_cast<int>(rank))));
      const StreamRef stream = streams.empty() ? StreamRef() : streams[rank];
      (sides_[rank].from->*move)(stream);
      if (!sides_[rank].in_place) (sides_[rank].to->*move)(stream);
    }
  }

  void check_input(int rank, std::size_t received) {
    const Side& side = sides_[static_cast<std::size_t>(rank)];
    EXPECT_EQ(side.from->damage(), "") << case_.describe() << ", rank " << rank;
    for (std::size_t at = side.send_begin, i = 0; side.sends && i < send_bytes(call_) / sizeof(T);
         ++i, at += sizeof(T)) {
      if (side.in_place && side.receives && at >= side.recv_begin &&
          at < side.recv_begin + received)
        continue;
      T x;
      std::memcpy(static_cast<void*>(&x), side.from->image() + at, sizeof(T));
      ASSERT_TRUE(are_same(x, element<T>(case_.seed, rank, i, call_.op)))
          << case_.describe() << ", rank " << rank << ": the input was changed";
    }
  }

  void check(int rank) {
    const Side& side = sides_[static_cast<std::size_t>(rank)];
    const bool has_result = terms_of(call_.collective, rank, gpus_.size()) != 0;
    check_input(rank, has_result ? recv_bytes(call_) : 0);
    EXPECT_EQ(side.to->damage(), "") << case_.describe() << ", rank " << rank;
    if (!has_result) {
      EXPECT_TRUE(side.in_place || side.to->untouched()) << case_.describe() << ", rank " << rank;
      return;
    }
    for (std::size_t i = 0; side.receives && i < recv_bytes(call_) / sizeof(T); ++i) {
      T got;
      std::memcpy(static_cast<void*>(&got), side.to->image() + side.recv_begin + i * sizeof(T),
                  sizeof(T));
      const auto wanted = received<T>(call_, case_.seed, gpus_.size(), rank, i);
      ASSERT_TRUE(is_right(got, wanted))
          << case_.describe() << ", rank " << rank << ", element " << i << ": " << text_of(got)
          << " instead of " << text_of(wanted);
    }
  }

  DeviceGroup& gpus_;
  GroupCase case_;
  Call call_;  // with `parts`
  std::vector<Side> sides_;
};

// Compiled once, because they take long; so does `check_case`, for all types.
extern template class GroupRun<std::int32_t>;
extern template class GroupRun<double>;

/// Runs the case once, on `streams`.
void check_case(DeviceGroup& gpus, GroupArena& arena, const GroupCase& c,
                DeviceGroup::Streams streams = {});

}  // namespace plait::test
