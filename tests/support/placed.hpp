// Reductions of `Terms` that lie anywhere in memory and are made in any way.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "algorithms/contract/collectives.hpp"
#include "plait/plait.hpp"
#include "support/by_name.hpp"
#include "support/device_array.hpp"
#include "support/terms.hpp"
#include "support/zoo.hpp"

namespace plait::test {

inline CommunicatorOptions reproducible(SumOrder order) {
  CommunicatorOptions options;
  options.reproducible = order == SumOrder::ranks;
  options.reproducible_tree = order == SumOrder::tree;
  return options;
}

/// Where a reduction lies, and how it is made.
struct Placing {
  Collective collective = Collective::all_reduce;
  std::string algorithm{};  // empty: chosen
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 1;  // of a block
  bool symmetric = false, in_place = false;
  std::size_t offset = 0;  // elements from an aligned address
  std::size_t first = 0;   // number of the terms of element 0
  int root = 0;
  unsigned blocks = 0, threads = 0;
  SumOrder order = SumOrder::ranks;  // the communicator's

  Case as_case(DataType type) const {
    return {.collective = collective,
            .algorithm = algorithm,
            .type = type,
            .op = op,
            .count = count,
            .in_place = in_place,
            .symmetric = symmetric,
            .send_offset = offset,
            .recv_offset = offset,
            .root = root,
            .blocks = blocks,
            .threads = threads};
  }
};

/// One reduction, in an arena that it has to itself.
template <class T>
class Placed {
 public:
  Placed(Communicator& comm, Arena& arena, const Terms<T>& terms, const Placing& placing)
      : comm_(comm),
        terms_(terms),
        placing_(placing),
        call_(placing.as_case(data_type_of<T>).call(comm.size())),
        facts_(facts_of(placing.collective)),
        send_(placing.symmetric ? arena.symmetric_send : arena.send),
        recv_(placing.symmetric ? arena.symmetric_recv : arena.recv) {
    const std::size_t sent = send_bytes(call_), received = recv_bytes(call_),
                      at = placing.offset * sizeof(T);
    send_.place(at, sent);
    recv_.place(at, placing.in_place ? std::max(sent, received) : received);
    DeviceArray& input = placing.in_place ? recv_ : send_;
    const std::size_t count = sent / sizeof(T);
    std::byte* to = input.image();
    for (std::size_t i = 0; i < count; ++i, to += sizeof(T)) {
      const T x = terms_.term(comm.rank(), placing.first + i);
      std::memcpy(to, &x, sizeof(T));
    }
    send_.upload({});
    recv_.upload({});
    comm_.synchronize();
  }

  void enqueue(StreamRef stream = {}, std::string_view algorithm = {}) {
    const std::string name(algorithm.empty() ? placing_.algorithm : algorithm);
    enqueue_by_name(comm_, call_, buffers().send, buffers().recv, stream,
                    {.algorithm = name,
                     .scale = Terms<T>::scale,
                     .blocks = placing_.blocks,
                     .threads = placing_.threads});
  }

  /// How many elements have not the bits of the sum in that order, once the call is done. Where
  /// `says`, the first of them is a failure.
  std::size_t wrong(bool says = true) {
    const int terms = terms_of(call_.collective, comm_.rank(), comm_.size());
    if (!has(facts_.recv, call_, comm_.rank()) || terms == 0) return 0;
    recv_.download({});
    comm_.synchronize();
    const auto* const device = static_cast<const std::byte*>(recv_.device());
    const std::byte* from = recv_.image() + (buffers().recv - device);
    const bool scattered = facts_.send.size == BufferFacts::Size::one_per_rank;
    const std::size_t begin =
        placing_.first + (scattered ? static_cast<std::size_t>(comm_.rank()) * call_.count : 0);
    const SumOrder order = is_scan(call_.collective) ? SumOrder::ranks : placing_.order;
    T wanted[Terms<T>::period];
    for (std::size_t i = 0; i < Terms<T>::period; ++i)
      wanted[i] = terms_.in_order(order, placing_.op, begin + i, terms);
    std::size_t number = 0;
    for (std::size_t i = 0; i < call_.count; ++i, from += sizeof(T)) {
      const T& right = wanted[i % Terms<T>::period];
      if (std::memcmp(from, &right, sizeof(T)) == 0) continue;
      if (number++ != 0 || !says) continue;
      T got;
      std::memcpy(&got, from, sizeof(T));
      report(comm_,
             fmt::format("{}: element {} is {:x} and not {:x}, the result in {}",
                         placing_.as_case(data_type_of<T>).describe(), i, Terms<T>::bits(got),
                         Terms<T>::bits(right), order == SumOrder::tree ? "a tree" : "rank order"));
    }
    return number;
  }

 private:
  CallBuffers buffers() const {
    return buffers_of(call_, placing_.in_place, static_cast<const std::byte*>(send_.device()),
                      static_cast<std::byte*>(recv_.device()), comm_.rank());
  }

  Communicator& comm_;
  const Terms<T>& terms_;
  Placing placing_;
  Call call_;
  CollectiveFacts facts_;
  DeviceArray &send_, &recv_;
};

}  // namespace plait::test
