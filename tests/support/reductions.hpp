// Reductions of any bits by every algorithm: for tests of what the results' bits must be.
#pragma once
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "plait/plait.hpp"
#include "support/by_name.hpp"
#include "support/device_array.hpp"
#include "support/zoo.hpp"

namespace plait::test {

/// An algorithm of a collective that reduces, in one kind of memory.
struct ReducingSubject {
  Collective collective;
  std::string algorithm;
  bool symmetric;

  Case of(DataType type, std::size_t count) const {
    return {.collective = collective,
            .algorithm = algorithm,
            .type = type,
            .count = count,
            .symmetric = symmetric};
  }
  std::string describe() const {
    return std::string(name_of(collective)) + " by " + algorithm +
           (symmetric ? ", symmetric" : ", ordinary");
  }
};

/// All that can be called on `comm`, whose results have the terms of all ranks.
inline std::vector<ReducingSubject> reducing_subjects(const Communicator& comm) {
  std::vector<ReducingSubject> subjects;
  for (const Subject& subject : all_algorithms())
    for (const bool symmetric : {false, true})
      if (facts_of(subject.collective).reduces && !is_scan(subject.collective) &&
          is_served(comm, subject.of({.count = 64, .symmetric = symmetric})))
        subjects.push_back({subject.collective, subject.algorithm, symmetric});
  return subjects;
}

/// A reduction of `count` elements of T for each rank that receives any, or of a few less, if the
/// algorithm serves whole packs only. Where ranks need not agree, their buffers are aligned
/// differently.
template <class T>
class ReductionOf {
 public:
  ReductionOf(Communicator& comm, Arena& arena, const ReducingSubject& subject, std::size_t count)
      : comm_(comm),
        subject_(subject),
        count_(is_served(comm, subject.of(data_type_of<T>, count)) ? count : count / 64 * 64),
        sent_(count_ * static_cast<std::size_t>(parts_of(subject.collective, comm.size()))),
        send_(subject.symmetric ? arena.symmetric_send : arena.send),
        recv_(subject.symmetric ? arena.symmetric_recv : arena.recv) {}

  /// Puts element(i) into the input, for i up to `sent()`.
  template <class Element>
  void fill(Element element) {
    const std::size_t offset =
        subject_.symmetric ? 0 : static_cast<std::size_t>(comm_.rank() % 2) * sizeof(T);
    send_.place(offset, sent_ * sizeof(T));
    recv_.place(offset, count_ * sizeof(T));
    for (std::size_t i = 0; i < sent_; ++i) send_.set<T>(i, element(i));
    // Where the caller has traps, a sum that reads beyond the input traps there.
    if constexpr (std::is_floating_point_v<T>)
      for (std::size_t i = sent_; i < sent_ + 32; ++i)
        send_.set<T>(i, std::numeric_limits<T>::signaling_NaN());
    send_.upload({});
    recv_.upload({});
    comm_.synchronize();
  }
  std::size_t sent() const { return sent_; }

  /// One call. `around(body)` calls body() once: enqueues and waits.
  template <class Around>
  void call(ReduceOp op, Around around) {
    const CallOptions options{.algorithm = subject_.algorithm, .scale = 1.25};
    around([&] {
      const void* send = send_.device();
      void* recv = recv_.device();
      enqueue_by_name(comm_,
                      {.collective = subject_.collective,
                       .type = data_type_of<T>,
                       .op = op,
                       .count = count_,
                       .root = root},
                      send, recv, StreamRef(), options);
      comm_.synchronize();
    });
  }
  void call(ReduceOp op) {
    call(op, [](const auto& body) { body(); });
  }

  /// This rank's result: element i is the reduction of element `first() + i` of all ranks.
  /// Empty if it receives nothing.
  std::vector<T> result() {
    if (facts().recv.root_only && comm_.rank() != root) return {};
    recv_.download({});
    comm_.synchronize();
    std::vector<T> values(count_);
    std::memcpy(values.data(), recv_.image(), count_ * sizeof(T));
    return values;
  }
  std::size_t first() const {
    return facts().send.size == BufferFacts::Size::one_per_rank
               ? static_cast<std::size_t>(comm_.rank()) * count_
               : 0;
  }

 private:
  static constexpr int root = 0;

  const CollectiveFacts& facts() const { return facts_of(subject_.collective); }

  Communicator& comm_;
  ReducingSubject subject_;
  std::size_t count_, sent_;
  DeviceArray &send_, &recv_;
};

}  // namespace plait::test
