#include "support/zoo.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>

#include "algorithms/contract/collectives.hpp"
#include "core/environment.hpp"
#include "support/by_name.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

template <class T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
auto printable(T x) {
  if constexpr (std::is_integral_v<T>) return +x;
  else return static_cast<double>(widen(x));
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
      if (at >= received && at < received_end) continue;
      const T x = load<T>(image, at), wanted = input(rank_, i);
      if (std::memcmp(&x, &wanted, sizeof(T)) != 0)
        return fail(fmt::format("the input was changed at {}", i));
    }
  }

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
    const double allowed = facts_.reduces ? tolerance<T>(call_.op, ranks_) : 0;
    const std::byte* const image = recv_.image() + recv_begin() * sizeof(T);
    for (std::size_t i = 0, count = recv_count(); i < count; ++i) {
      const T got = load<T>(image, i);
      const auto right_one = wanted(i);
      bool right = false;
      if constexpr (std::is_integral_v<T>) right = got == right_one;
      else right = std::abs(static_cast<double>(widen(got)) - right_one) <= allowed;
      if (!right) {
        fail(fmt::format("element {} is {} instead of {}", i, printable(got), right_one));
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
  const std::string line = "  " + c.algorithm + " ";
  const std::string text = comm.explain(
      c.call(comm.size()));  // lists all algorithms, each with an estimate or the reason why not
  const auto start = text.find('\n' + line);
  if (start == std::string::npos)
    throw std::runtime_error("explain() does not list " + c.algorithm + ":\n" + text);
  const auto end = text.find('\n', start + 1);
  return text.substr(start, end - start).find(" no: ") == std::string::npos;
}

bool check(Communicator& comm, Arena& arena, const Case& c, StreamRef stream) {
  Arena* const only = &arena;
  return check_together(comm, std::span(&only, 1), std::span(&c, 1), stream);
}

bool check_together(Communicator& comm, std::span<Arena* const> arenas, std::span<const Case> cases,
                    StreamRef stream) {
  std::vector<std::unique_ptr<Started>> started;
  for (std::size_t i = 0; i < cases.size(); ++i)
    started.push_back(dispatch(cases[i].type, [&]<class T>() -> std::unique_ptr<Started> {
      return std::make_unique<Run<T>>(comm, *arenas[i], cases[i], stream);
    }));
  comm.synchronize(stream);
  bool good = true;
  for (const auto& one : started) good = one->finish() && good;
  return good;
}

std::vector<std::size_t> odd_counts() {
  return {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1024, 4099};
}

namespace {

/// Says, once per algorithm and process, that no test tries it: tools/check_skips.py reads this.
void report_left_out(const Algorithm& algorithm, const std::string& reason) {
  static std::mutex mutex;
  static std::set<const Algorithm*> reported;
  const std::lock_guard lock(mutex);
  if (reported.insert(&algorithm).second)
    std::fprintf(stderr, "LEFT OUT: %s.by.%s: %s\n",
                 std::string(name_of(algorithm.collective())).c_str(),
                 std::string(algorithm.name()).c_str(), reason.c_str());
}

/// Whether the target can run the algorithm at all.
bool can_run(const Algorithm& algorithm) {
  // On another thread, because opening a device makes it the thread's current one, and a rank may
  // ask in the middle of its work.
  static const DeviceFacts facts =
      std::async(std::launch::async, [] {
        const auto backend = open_backend(target(), 0);
        if (environment_integer("PLAIT_DISABLE_P2P", 0, 0, 1) == 1) backend->use_host_memory();
        backend->meet(std::array{backend->process_facts()});  // of what one process alone can know
        return backend->info().facts;
      }).get();
  Topology topology{facts};
  topology.backend = target();
  topology.ranks = 2;
  Call easiest;
  easiest.collective = algorithm.collective();
  easiest.count = 16;  // some want blocks that are whole packs, of any type
  easiest.symmetric = true;
  easiest.parts = parts_of(easiest.collective, topology.ranks);
  const Support support = algorithm.supports(easiest, topology);
  if (!support) report_left_out(algorithm, support.reason());
  return static_cast<bool>(support);
}

}  // namespace

std::vector<std::string> all_reduce_algorithms() {
  std::vector<std::string> names;
  for (const auto& algorithm : Registry::instance().all())
    if (algorithm->collective() == Collective::all_reduce && can_run(*algorithm))
      names.emplace_back(algorithm->name());
  return names;
}

std::vector<Subject> other_algorithms() {
  std::vector<Subject> subjects;
  for (const auto& algorithm : Registry::instance().all())
    if (algorithm->collective() != Collective::all_reduce &&
        algorithm->collective() != Collective::barrier && can_run(*algorithm))
      subjects.emplace_back(algorithm->collective(), std::string(algorithm->name()));
  return subjects;
}

void check_repeated_in_place(Communicator& comm, Arena& arena, std::size_t count, int calls,
                             const CallOptions& options) {
  // Each call after the first multiplies the sum by the number of ranks, modulo 2^64. After 16
  // calls of 8 ranks, 19 bits of a sum are left; after 22, none, and nothing could be wrong. So
  // every 16 calls begin with new data.
  constexpr std::size_t calls_per_round = 16;
  const std::size_t bytes = count * sizeof(std::uint64_t), most = static_cast<std::size_t>(calls),
                    rounds = (most + calls_per_round - 1) / calls_per_round;
  constexpr std::uint64_t seed = 4711;
  DeviceArray &series = arena.symmetric_send, &memory = arena.symmetric_recv;
  series.place(0, rounds * bytes);
  memory.place(0, bytes);
  for (std::size_t i = 0; i < rounds * count; ++i) {
    const auto x = element<std::uint64_t>(seed, comm.rank(), i, ReduceOp::sum);
    std::memcpy(series.image() + i * sizeof x, &x, sizeof x);
  }
  series.upload({});
  memory.upload({});
  std::uint64_t factor = 1;
  for (std::size_t call = 1; call < calls_per_round; ++call)
    factor *= static_cast<unsigned>(comm.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    auto* const message = static_cast<std::byte*>(series.device()) + round * bytes;
    backend_of(comm).copy(memory.device(), message, bytes, nullptr);
    for (std::size_t call = 0; call < calls_per_round; ++call)
      comm.all_reduce(memory.device(), memory.device(), count, DataType::u64, ReduceOp::sum, {},
                      options);
    backend_of(comm).copy(message, memory.device(), bytes, nullptr);
  }
  series.download({});
  memory.download({});
  comm.synchronize();
  for (const DeviceArray* array : {&series, &memory})
    if (const std::string damage = array->damage(); !damage.empty())
      report(comm, options.algorithm + ": " + damage);
  for (std::size_t i = 0; i < rounds * count; ++i) {
    const auto got = load<std::uint64_t>(series.image(), i);
    const auto wanted = expected<std::uint64_t>(seed, comm.size(), i, ReduceOp::sum, 1) * factor;
    if (got != wanted)
      return report(comm, fmt::format("{}: element {} of {} is {} instead of {} in round {}",
                                      options.algorithm, i % count, count, got, wanted, i / count));
  }
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

namespace {

/// Variants of memory and place, each with its own misalignment, root and data.
std::vector<Case> variants(const Communicator& comm, const Case& base) {
  std::vector<Case> cases;
  for (const bool symmetric : {false, true})
    for (const bool in_place : {false, true}) {
      Case c = base;
      c.symmetric = symmetric;
      c.in_place = in_place;
      c.seed = hash(base.seed, cases.size(), base.count);
      c.send_offset = c.seed % 3;  // aligned, and off by one or two elements
      c.recv_offset = (c.seed >> 8) % 3;
      c.root = static_cast<int>((c.seed >> 16) % static_cast<unsigned>(comm.size()));
      cases.push_back(c);
    }
  return cases;
}

}  // namespace

void check_all_types_and_operations(Communicator& comm, Arena& arena, const Subject& subject,
                                    const std::vector<std::size_t>& counts) {
  // The order of accesses does not depend on them, so the race checker gets a few.
  for (int type = 0; type < data_type_count; type += under_tsan ? 5 : 1)
    for (int op = 0; op < (facts_of(subject.collective).reduces ? reduce_op_count : 1);
         op += under_tsan ? 4 : 1) {
      Case base =
          subject.of({.type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)});
      const bool scaled = base.op == ReduceOp::premul_sum;
      if (scaled && !is_float(base.type)) continue;  // refused by the call itself: error_test
      for (const std::size_t count : counts)
        for (const double scale : scaled ? std::vector{0.5, 2.0} : std::vector{1.0}) {
          base.count = count;
          base.scale = scale;
          base.seed = hash(static_cast<unsigned>(type), static_cast<unsigned>(op), count);
          for (const Case& c : variants(comm, base)) check(comm, arena, c);
        }
    }
}

void check_all_counts(Communicator& comm, Arena& arena, const Subject& subject,
                      const std::vector<DataType>& types) {
  for (const DataType type : types)
    for (const std::size_t count : odd_counts())
      for (const Case& c : variants(comm, subject.of({.type = type, .count = count, .seed = 77})))
        check(comm, arena, c);
}

void check_large(Communicator& comm, Arena& arena, const Subject& subject, std::size_t bytes) {
  bytes /= static_cast<std::size_t>(parts_of(subject.collective, comm.size()));
  check(comm, arena,
        subject.of({.type = DataType::u8,
                    .count = bytes / 5,
                    .symmetric = true,
                    .send_offset = 1,
                    .root = comm.size() - 1,
                    .seed = 98}));
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    const auto cases =
        variants(comm, subject.of({.type = type, .count = bytes / size_of(type) + 1, .seed = 99}));
    check(comm, arena, cases[1]);  // ordinary, in place
    check(comm, arena, cases[2]);  // symmetric, out of place
  }
}

void check_launch_shapes(Communicator& comm, Arena& arena, const Subject& subject) {
  // Two variants of the four in turn: all of them with every number of blocks, of threads and of
  // elements, and with every pair of these.
  bool odd = false;
  for (const unsigned blocks : {1u, 2u, 3u, 5u}) {
    for (const unsigned threads : {1u, 2u, 3u, 4u})
      for (const std::size_t count : {1u, 4096u, 4099u}) {
        const auto cases = variants(comm, subject.of({.type = DataType::i32,
                                                      .count = count,
                                                      .blocks = blocks,
                                                      .threads = threads,
                                                      .seed = 5}));
        for (std::size_t i = 0; i < cases.size(); ++i)
          if ((i == 1 || i == 2) == odd) check(comm, arena, cases[i]);
        odd = !odd;
      }
    odd = !odd;
  }
}

}  // namespace plait::test
