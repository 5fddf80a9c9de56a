// How much of a GPU the launches take: kernels of communicators without an order between them must
// fit beside each other (docs/invariants.md, 1). Prints a table. Needs one GPU for its
// assertions; the host's launches take no places from each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "algorithms/contract/event_queue.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "communicator/selection/selection.hpp"
#include "plait/error.hpp"
#include "support/every_algorithm.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

struct Launched {
  LaunchShape shape;
  double block = 0;  // what one of its blocks takes of the device
  double share() const { return shape.blocks * block; }
};

/// Notes what an algorithm launches, and runs nothing.
class Recorder final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::vector<Launched> take() { return std::exchange(launched_, {}); }

  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t, const Watch&,
              NativeStream) override {
    launched_.push_back({shape, share(kernel, {1, shape.threads}, args)});
  }
  void copy(void*, const void*, std::size_t, NativeStream) override {}
  bool captures_spread() const noexcept override {
    return false;
  }  // so that no call asks for a second stream
  bool is_capturing(NativeStream) override { return false; }

  NativeStream create_stream() override { unexpected(); }
  void fill(void*, unsigned char, std::size_t, NativeStream) override { unexpected(); }
  void synchronize(NativeStream) override { unexpected(); }
  void synchronize_device() override { unexpected(); }
  void host_call(NativeStream, std::function<void()>) override { unexpected(); }

 private:
  [[noreturn]] static void unexpected() {
    throw Error(ErrorCode::backend, "an algorithm does more than launch and copy");
  }

  std::vector<Launched> launched_;
};

/// Memory that no kernel looks at.
class NoRange final : public ReservedRange {
 public:
  std::byte* address(int) const noexcept override { return nullptr; }
  WindowView view(int) const noexcept override { return {}; }
  UniqueFd create_local(int) override { return {}; }
  void import_peer(int, UniqueFd) override {}
};

enum class Place { ordinary, out_of_place, in_place };
constexpr std::string_view name_of_place(Place place) {
  return place == Place::ordinary       ? "ordinary"
         : place == Place::out_of_place ? "symmetric"
                                        : "in place";
}

struct Case {
  Collective collective;
  int ranks;
  DataType type;
  std::size_t bytes;
  Place place;
  Call call() const {
    // The operation for which a type has kernels of its own.
    const ReduceOp op = is_value_index(type)        ? ReduceOp::minloc
                        : is_complex(type)          ? ReduceOp::prod
                        : type == DataType::boolean ? ReduceOp::lor
                                                    : ReduceOp::sum;
    return in_words({.collective = collective,
                     .type = type,
                     .op = op,
                     .count = std::max<std::size_t>(1, bytes / size_of(type)),
                     .symmetric = place != Place::ordinary,
                     .in_place = place == Place::in_place,
                     .scale = 1});
  }
};

/// One rank's launches.
class Launches {
 public:
  explicit Launches(const std::shared_ptr<Backend>& device)
      : device_(device),
        recorder_(std::make_shared<Recorder>(device)),
        side_(recorder_),
        events_(recorder_),
        work_(recorder_, events_, std::size_t{1} << 20, [] {}) {}

  Topology topology(int ranks) const {
    Topology topology{device_->info().facts};
    topology.backend = device_->info().backend;
    topology.ranks = ranks;
    topology.architecture = device_->info().architecture;
    topology.scratch_limit = std::size_t{128} << 20;
    return topology;
  }

  std::vector<Launched> of(const Algorithm& algorithm, const Case& c, LaunchShape shape,
                           const Topology& topology) {
    const Call call = c.call();
    const NoRange range;
    std::byte memory[2];
    Buffers buffers;
    buffers.send = &memory[0];
    buffers.recv = c.place == Place::in_place ? &memory[0] : &memory[1];
    buffers.send_range = buffers.recv_range = &range;
    const LaunchShape fitted = algorithm.fitted(shape, call, topology);
    run(topology,
        [&](LaunchContext& context) { algorithm.enqueue(call, buffers, fitted, context); });
    return recorder_->take();
  }
  /// `messages` of the case at once.
  std::vector<Launched> of_batch(const Algorithm& algorithm, const Case& c, std::size_t messages,
                                 const Topology& topology) {
    const Call call = c.call();
    const Buffers buffers;
    const std::vector<BatchedCall> calls(messages, BatchedCall{&call, &buffers, &algorithm, {}});
    run(topology, [&](LaunchContext& context) { algorithm.enqueue_batch(calls, context); });
    return recorder_->take();
  }

  /// `each` messages to every other rank, and as many from it, at once.
  std::vector<Launched> of_messages(const Algorithm& algorithm, const Case& c, std::size_t each,
                                    const Topology& topology) {
    const Call call = c.call();
    const LaunchShape shape =
        algorithm.fitted(algorithm.shapes(call, topology).front(), call, topology);
    const NoRange range;
    std::byte memory;
    std::vector<Buffers> buffers;
    for (int peer = 1; peer < c.ranks; ++peer)
      for (const bool sends : {true, false}) {
        Buffers end;
        end.peer = peer;
        if (sends) end.send = &memory;
        else end.recv = &memory;
        end.recv_range = &range;
        buffers.insert(buffers.end(), each, end);
      }
    std::vector<BatchedCall> calls;
    for (const Buffers& end : buffers) calls.push_back({&call, &end, &algorithm, shape});
    run(topology, [&](LaunchContext& context) { algorithm.enqueue_batch(calls, context); });
    return recorder_->take();
  }

  /// The number of blocks of its kind that fit on a multiprocessor.
  double blocks_per_multiprocessor(const Launched& launched) const {
    return 1 / (launched.block * device_->info().facts.units);
  }

 private:
  void run(const Topology& topology, const std::function<void(LaunchContext&)>& enqueue) {
    const AlgorithmGrant grant{.own = {}, .shared = Grant{}, .reserved = {}};
    const Watch watch{};
    const LaunchSetting setting{*recorder_, kernels_, topology, 0, 0, work_, statistics_};
    LaunchContext context(setting, nullptr, false, side_, grant, watch);
    enqueue(context);
  }

  std::shared_ptr<Backend> device_;
  std::shared_ptr<Recorder> recorder_;
  SideStream side_;
  EventQueue events_;
  WorkMemory work_;
  KernelCache kernels_;
  Statistics statistics_;
};

/// The launches of one kind that take most, by algorithm.
class Largest {
 public:
  void consider(const Algorithm& algorithm, const Case& c, const std::vector<Launched>& launches,
                const std::string& rule = {}) {
    for (const Launched& launched : launches) {
      Row& row = rows_[std::string(algorithm.name())];
      if (launched.share() > row.launched.share()) row = {c, launched, rule};
    }
  }
  /// Prints them. Each leaves room for any launch of another communicator (docs/invariants.md, 1),
  /// or, with `alone`, runs at once.
  void expect_room(const char* title, const Launches& launches, bool alone = false) const {
    fmt::print("{}\n{:<20} {:>6} {:>7} {:>8} {:>7}  for\n", title, "algorithm", "share", "blocks",
               "threads", "a unit");
    EXPECT_FALSE(rows_.empty());
    for (const auto& [name, row] : rows_) {
      const double share = row.launched.share(),
                   per_unit = launches.blocks_per_multiprocessor(row.launched);
      fmt::print("{:<20} {:>6.3f} {:>7} {:>8} {:>7.0f}  {} of {} bytes of {}, {} ranks, {}{}\n",
                 name, share, row.launched.shape.blocks, row.launched.shape.threads, per_unit,
                 name_of(row.of.collective), row.of.bytes, name_of(row.of.type), row.of.ranks,
                 name_of_place(row.of.place), row.rule.empty() ? "" : ", by " + row.rule);
      // Large kernels of copy_engine wait for no other rank, so they end.
      const bool has_room =
          alone ? share <= 1
                : name == "copy_engine" || (share < 1 && (per_unit < 2.5 || share <= 0.5));
      EXPECT_TRUE(has_room) << name;
    }
  }

 private:
  struct Row {
    Case of{};
    Launched launched{};
    std::string rule;
  };
  std::map<std::string, Row> rows_;
};

/// Those of the collectives; of messages, where `messages`.
void for_each_case(bool messages, const std::function<void(const Case&)>& body) {
  for (int number = 0; number < collective_count; ++number) {
    const auto collective = static_cast<Collective>(number);
    if (collective == Collective::barrier || (collective == Collective::send_recv) != messages)
      continue;
    for (const int ranks : {2, 3, 4, 5, 8})
      for (int type = 0; type < data_type_count; ++type)
        for (std::size_t bytes = 1; bytes <= std::size_t{4} << 30; bytes *= 4)
          for (const Place place : {Place::ordinary, Place::out_of_place, Place::in_place})
            body({collective, ranks, static_cast<DataType>(type), bytes, place});
  }
}

/// Also where the launches take no places.
TEST(Launches, AreSeenAsTheyAreMade) {
  Launches launches(open_backend(target(), 0));
  const Topology topology = launches.topology(4);
  const Case c{Collective::all_reduce, 4, DataType::f32, std::size_t{1} << 20, Place::ordinary};
  const auto launched =
      launches.of(*Registry::instance().find("oneshot_ll"), c, {1000, 32}, topology);
  ASSERT_EQ(launched.size(), 1u);
  EXPECT_EQ(launched[0].shape, (LaunchShape{128, 32})) << "cut to what there is memory for";
  const Case large{Collective::all_reduce, 4, DataType::f32, std::size_t{1} << 28,
                   Place::out_of_place};
  EXPECT_GT(
      launches.of(*Registry::instance().find("copy_engine"), large, {16, 32}, topology).size(), 3u);
}

/// The launch that is chosen on a GPU of any size, as if this were one, has no more blocks than run
/// at once if two fit on a multiprocessor.
TEST(Launches, FollowTheSizeOfTheDevice) {
  Launches launches(open_backend(target(), 0));
  const std::vector<const Algorithm*> algorithms = every_algorithm();
  for (const unsigned units : {8u, 56u, 108u, 114u, 132u, 160u}) {
    std::map<int, Selector> selectors;
    const auto topology_of = [&](int ranks) {
      Topology topology = launches.topology(ranks);
      topology.backend = BackendKind::cuda;
      topology.architecture = "sm_90";
      topology.units = units;
      topology.block_threads = topology.max_block_threads = 512;
      topology.peer_access = topology.indexed_arguments = true;
      topology.line_threads = 8;
      return topology;
    };
    const auto expect_few = [&](const std::vector<Launched>& all, std::string_view algorithm,
                                const Case& c) {
      if (algorithm == "copy_engine") return;  // its sums wait for no other rank
      for (const Launched& launched : all)
        ASSERT_LE(launched.shape.blocks, 2 * (units - 1))
            << algorithm << ": " << name_of(c.collective) << " of " << c.bytes << " bytes, "
            << c.ranks << " ranks, " << units << " multiprocessors";
    };
    for_each_case(false, [&](const Case& c) {
      if (c.type != DataType::i8 && c.type != DataType::bf16 && c.type != DataType::f64) return;
      if (!selectors.contains(c.ranks))
        selectors.emplace(c.ranks, Selector(topology_of(c.ranks), algorithms));
      const Selector& selector = selectors.at(c.ranks);
      const Choice choice = selector.choose(c.call(), {});
      expect_few(launches.of(*choice.algorithm, c, choice.shape, selector.topology()),
                 choice.algorithm->name(), c);
    });
    for_each_case(true, [&](const Case& c) {
      if (c.type != DataType::i8 || c.place != Place::out_of_place) return;
      const Topology topology = topology_of(c.ranks);
      for (const Algorithm* algorithm : algorithms)
        if (algorithm->collective() == Collective::send_recv &&
            algorithm->supports(c.call(), topology))
          for (const std::size_t each : {1u, 3u})
            expect_few(launches.of_messages(*algorithm, c, each, topology), algorithm->name(), c);
    });
  }
}

class Residency : public testing::Test {
 protected:
  void SetUp() override {
    if (target() == BackendKind::host)
      GTEST_SKIP() << "launches of the host take no places from each other";
    const std::shared_ptr<Backend> device = open_backend(target(), 0);
    device->load_kernels();
    launches_ = std::make_unique<Launches>(device);
  }
  /// `body(algorithm, case, topology)` for each algorithm that serves the case.
  template <class Body>
  void for_each_served(bool messages, Body body) const {
    for_each_case(messages, [&](const Case& c) {
      const Topology topology = launches_->topology(c.ranks);
      for (const Algorithm* algorithm : every_algorithm())
        if (algorithm->supports(c.call(), topology)) body(*algorithm, c, topology);
    });
  }
  std::unique_ptr<Launches> launches_;
  Largest largest_;
};

/// Two communicators may be used without any order between them, if all calls take what is chosen
/// for them.
TEST_F(Residency, WhatIsChosenLeavesAPlaceForAnother) {
  for (const bool measured :
       {true, false}) {  // by the table of the architecture, if there is one; by the estimates
    std::map<int, Selector> selectors;
    for_each_case(false, [&](const Case& c) {
      if (!selectors.contains(c.ranks)) {
        Topology topology = launches_->topology(c.ranks);
        if (!measured) topology.architecture = "another";
        selectors.emplace(c.ranks, Selector(topology, every_algorithm()));
      }
      const Selector& selector = selectors.at(c.ranks);
      const Choice choice = selector.choose(c.call(), {});
      largest_.consider(*choice.algorithm, c,
                        launches_->of(*choice.algorithm, c, choice.shape, selector.topology()),
                        choice.rule);
    });
  }
  largest_.expect_room("What is chosen, at its largest:", *launches_);
}

/// The same of groups.
TEST_F(Residency, BatchesLeaveAPlaceForAnother) {
  for_each_served(false, [&](const Algorithm& algorithm, const Case& c, const Topology& topology) {
    if (c.bytes > std::size_t{1} << 20 || !algorithm.batches(topology)) return;
    for (const std::size_t messages : {2u, 50u, 1000u})
      largest_.consider(algorithm, c, launches_->of_batch(algorithm, c, messages, topology));
  });
  largest_.expect_room("Batches, at their largest:", *launches_);
}

/// The same of messages, to and from all other ranks at once.
TEST_F(Residency, MessagesLeaveAPlaceForAnother) {
  for_each_served(true, [&](const Algorithm& algorithm, const Case& c, const Topology& topology) {
    if (algorithm.collective() != Collective::send_recv) return;
    for (const std::size_t each : {1u, 3u})
      largest_.consider(algorithm, c, launches_->of_messages(algorithm, c, each, topology));
  });
  largest_.expect_room("Messages, at their largest:", *launches_);
}

/// Whichever algorithm the caller names, its own shape fits at once.
TEST_F(Residency, EveryAlgorithmsFirstShapeFits) {
  for_each_served(false, [&](const Algorithm& algorithm, const Case& c, const Topology& topology) {
    const LaunchShape first = algorithm.shapes(c.call(), topology).front();
    largest_.consider(algorithm, c, launches_->of(algorithm, c, first, topology));
  });
  largest_.expect_room("First shapes, at their largest:", *launches_, true);
}

}  // namespace
}  // namespace plait::test
