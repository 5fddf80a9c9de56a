// One case of a collective: its data, its call, and the checks of its result.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/selection.hpp"
#include "plait/error.hpp"
#include "support/by_name.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

template <class T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(static_cast<void*>(&value), data + i * sizeof(T), sizeof(T));
  return value;
}

/// One case on one rank.
class Started {
 public:
  virtual ~Started() = default;
  /// When the stream is empty: checks what has come of it.
  virtual bool finish() = 0;
};

/// Out of place it has two arrays, in place one, and then the smaller buffer is a block of it. With
/// a root, the other ranks' only buffer lies where the root's does, as symmetric memory demands.
template <class T>
class Run final : public Started {
 public:
  /// Enqueues it.
  Run(Communicator& comm, Arena& arena, const Case& c, StreamRef stream)
      : comm_(comm),
        rank_(comm.rank()),
        ranks_(comm.size()),
        case_(c),
        facts_(facts_of(c.collective)),
        call_{c.call(comm.size())},
        sends_(has(facts_.send, call_, comm.rank())),
        receives_(has(facts_.recv, call_, comm.rank())),
        in_place_(c.in_place && has_in_place(c.collective) &&
                  ((sends_ && receives_) || (facts_.rooted && c.symmetric))),
        send_(c.symmetric ? arena.symmetric_send : arena.send),
        recv_(in_place_     ? send_
              : c.symmetric ? arena.symmetric_recv
                            : arena.recv) {
    prepare();
    send_.upload(stream);
    if (!in_place_) recv_.upload(stream);
    refusal_ = case_.way == Way::plain ? call(stream) : indirect_call(stream);
    send_.download(stream);
    if (!in_place_) recv_.download(stream);
  }

  bool finish() override {
    check_input(refusal_.empty());
    if (refusal_.empty()) check_result();
    else check_refusal(refusal_);
    return good_;
  }

 private:
  std::size_t send_count() const { return sends_ ? plait::send_bytes(call_) / sizeof(T) : 0; }
  std::size_t recv_count() const { return receives_ ? plait::recv_bytes(call_) / sizeof(T) : 0; }
  // Elements from the start of the arrays' data; in place, the smaller buffer begins somewhere in
  // the larger one.
  std::ptrdiff_t distance() const {
    const int owner = facts_.rooted ? case_.root : rank_;
    return in_place_ ? in_place_distance(call_, owner) / static_cast<std::ptrdiff_t>(sizeof(T)) : 0;
  }
  std::size_t send_begin() const {
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(-distance(), 0));
  }
  std::size_t recv_begin() const {
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(distance(), 0));
  }

  /// Messages go round: to the next rank, from the one before.
  int before() const { return (rank_ + ranks_ - 1) % ranks_; }

  T input(int rank, std::size_t i) const { return element<T>(case_.seed, rank, i, call_.op); }
  /// Element i of what this rank receives.
  auto wanted(std::size_t i) const { return received<T>(call_, case_.seed, ranks_, rank_, i); }

  void prepare() {
    const std::size_t shift = case_.symmetric ? 0 : static_cast<std::size_t>(rank_) % 3;
    if (!in_place_)
      recv_.place((case_.recv_offset + 2 * shift) * sizeof(T), recv_count() * sizeof(T));
    const std::size_t larger = std::max(plait::send_bytes(call_), plait::recv_bytes(call_));
    send_.place((case_.send_offset + shift) * sizeof(T),
                in_place_ ? larger : send_count() * sizeof(T));
    std::byte* const image = send_.image() + send_begin() * sizeof(T);
    for (std::size_t i = 0, count = send_count(); i < count; ++i) {
      const T x = input(rank_, i);
      std::memcpy(image + i * sizeof(T), &x, sizeof(T));
    }
  }

  std::string indirect_call(StreamRef stream) {
    if (case_.way == Way::grouped) {
      Group group;
      std::string refusal = call(stream);
      group.end();
      return refusal;
    }
    Backend& backend = backend_of(comm_);
    const DeviceScope device(backend);
    backend.begin_capture(stream.native());
    std::string refusal = call(stream);
    const auto graph = backend.end_capture(stream.native());
    for (int replay = 0; replay < (case_.in_place ? 1 : 2); ++replay)
      graph->launch(stream.native());
    backend.synchronize(stream.native());  // before the graph is gone
    return refusal;
  }

  std::string call(StreamRef stream) {
    // The library ignores the address where a rank has no buffer.
    const void* from = sends_ ? static_cast<T*>(send_.device()) + send_begin() : nullptr;
    void* to = receives_ ? static_cast<T*>(recv_.device()) + recv_begin() : nullptr;
    const Case& c = case_;
    CallOptions options = c.options();
    try {
      if (c.collective == Collective::send_recv) {
        options.symmetric = c.symmetric;
        comm_.send_recv(from, c.count, (rank_ + 1) % ranks_, to, c.count, before(), c.type, stream,
                        options);
      } else {
        enqueue_by_name(comm_, call_, from, to, stream, options);
      }
      if (!is_served(comm_, case_)) fail("was enqueued, though supports() refuses it");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported || is_served(comm_, case_))
        throw std::runtime_error(
            fmt::format("{}: {} ({})", case_.describe(), error.what(), name_of(error.code())));
      return error.what();
    }
    return {};
  }

  /// Elements that were not received are as they were.
  void check_input(bool called) {
    if (const std::string damage = send_.damage(); !damage.empty()) fail("send: " + damage);
    const std::byte* const image = send_.image();
    const std::size_t begin = send_begin(), received = recv_begin(),
                      received_end = in_place_ && called ? received + recv_count() : received;
    for (std::size_t i = 0, count = send_count(); i < count; ++i) {
      const std::size_t at = begin + i;
      if (at >= received && at < received_end && !is_without_result()) continue;
      const T x = load<T>(image, at), wanted = input(rank_, i);
      if (!are_same(x, wanted)) return fail(fmt::format("the input was changed at {}", i));
    }
  }

  /// Rank 0 of an exclusive scan: its output is as it was.
  bool is_without_result() const { return terms_of(call_.collective, rank_, ranks_) == 0; }

  void check_refusal(const std::string& refusal) {
    if (!in_place_ && !recv_.untouched()) fail("was refused, but wrote");
    if (refusal.find(case_.algorithm) == std::string::npos)
      fail("the refusal does not name the algorithm: " + refusal);
    const std::string own = fmt::format("rank {}: ", rank_);
    std::string of_all = refusal;
    if (const auto at = of_all.find(own); at != std::string::npos) of_all.erase(at, own.size());
    if (!same_on_all_ranks(comm_, of_all.data(), of_all.size()))
      fail("ranks refuse with different messages: " + refusal);
  }

  void check_result() {
    if (const std::string damage = recv_.damage(); !damage.empty()) fail("recv: " + damage);
    if (is_without_result()) {
      if (!in_place_ && !recv_.untouched()) fail("wrote a result that rank 0 has not");
      return;
    }
    const std::byte* const image = recv_.image() + recv_begin() * sizeof(T);
    for (std::size_t i = 0, count = recv_count(); i < count; ++i) {
      const T got = load<T>(image, i);
      const auto right_one = wanted(i);
      if (!is_right(got, right_one)) {
        fail(fmt::format("element {} is {} instead of {}", i, text_of(got), text_of(right_one)));
        break;
      }
    }
    const bool all_the_same = case_.collective == Collective::all_reduce ||
                              case_.collective == Collective::broadcast ||
                              case_.collective == Collective::all_gather;
    if (all_the_same && !same_on_all_ranks(comm_, recv_.image() + recv_begin() * sizeof(T),
                                           recv_count() * sizeof(T)))
      fail("ranks have different bits");
  }

  void fail(const std::string& what) {
    good_ = false;
    report(comm_, case_.describe() + ": " + what);
  }

  Communicator& comm_;
  const int rank_, ranks_;  // asked for each element
  const Case& case_;
  const CollectiveFacts facts_;
  const Call call_;
  const bool sends_, receives_, in_place_;
  DeviceArray &send_, &recv_;
  std::string refusal_;
  bool good_ = true;
};

}  // namespace

std::string Case::describe() const {
  const CollectiveFacts facts = facts_of(collective);
  return fmt::format("{} by {}: {} x {}{}{}{}, {}, {} memory, offsets {} and {}, seed {}{}",
                     name_of(collective), algorithm.empty() ? "what is chosen" : algorithm, count,
                     name_of(type), facts.reduces ? fmt::format(", {}", name_of(op)) : "",
                     scale == 1 ? "" : fmt::format(" (scale {})", scale),
                     facts.rooted ? fmt::format(", root {}", root) : "",
                     in_place ? "in place" : "out of place", symmetric ? "symmetric" : "ordinary",
                     send_offset, recv_offset, seed,
                     blocks + threads == 0
                         ? ""
                         : fmt::format(", {} blocks of {} threads", blocks, threads)) +
         (way == Way::plain      ? ""
          : way == Way::captured ? ", in a graph"
                                 : ", in a group");
}

Call Case::call(int ranks) const {
  const CollectiveFacts facts = facts_of(collective);
  return {.collective = collective,
          .type = type,
          .op = facts.reduces ? op : ReduceOp::sum,
          .count = count,
          .symmetric = symmetric,
          .in_place = symmetric && in_place && !facts.rooted,
          .scale = facts.reduces ? scale : 1,
          .root = root,
          .parts = parts_of(collective, ranks)};
}

bool is_served(const Communicator& comm, const Case& c) {
  if (c.algorithm.empty() || c.count == 0) return true;
  const Algorithm* const algorithm = Registry::instance().find(c.algorithm, c.collective);
  if (algorithm == nullptr) throw std::runtime_error("no algorithm has the name " + c.algorithm);
  const Selector& selector = selector_of(comm);
  return bool(selector.admits(*algorithm, selector.ordered(in_words(c.call(comm.size())), {})));
}

bool check(Communicator& comm, Arena& arena, const Case& c, StreamRef stream) {
  Arena* const only = &arena;
  return check_together(comm, std::span(&only, 1), std::span(&c, 1), stream);
}

bool check_together(Communicator& comm, std::span<Arena* const> arenas, std::span<const Case> cases,
                    StreamRef stream) {
  std::vector<std::unique_ptr<Started>> started;
  for (std::size_t i = 0; i < cases.size(); ++i)
    started.push_back(dispatch_all(cases[i].type, [&]<class T>() -> std::unique_ptr<Started> {
      return std::make_unique<Run<T>>(comm, *arenas[i], cases[i], stream);
    }));
  comm.synchronize(stream);
  bool good = true;
  for (const auto& one : started) good = one->finish() && good;
  return good;
}

std::uint64_t digest(const void* data, std::size_t bytes) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < bytes; ++i)
    value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  return value;
}

bool same_on_all_ranks(Communicator& comm, const void* data, std::size_t bytes) {
  const auto all = comm.bootstrap().all_gather(digest(data, bytes));
  return std::all_of(all.begin(), all.end(), [&](std::uint64_t other) { return other == all[0]; });
}

void report(const Communicator& comm, const std::string& what) {
  static std::atomic<int> reported = 0;
  ADD_FAILURE() << "rank " << comm.rank() << " of " << comm.size() << ": " << what;
  if (++reported > 40) throw std::runtime_error("too many failures, see above");
}

}  // namespace plait::test
