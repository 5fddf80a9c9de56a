// Which requests a call that is known answers.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>

#include "communicator/calls/known_calls.hpp"

namespace plait::test {
namespace {

const Call request_of_ints{
    .collective = Collective::all_reduce, .type = DataType::i32, .count = 300};

/// Whatever the user passes makes a difference, except for `blocking`.
TEST(KnownCalls, AnswerEqualRequestsAlone) {
  std::array<int, 2> memory{};
  const CallOptions plain{.algorithm = "ring"};
  const MessageEnd end{.sends = true, .peer = 1, .buffer = memory.data(), .count = 1};
  const std::array one_end{end};
  const std::array two_ends{end, end};
  const Request first{.call = request_of_ints,
                      .send = memory.data(),
                      .recv = memory.data(),
                      .ends = one_end,
                      .options = plain};
  const MemoryState now{.allocations = 3, .grants = 1};
  KnownCall known;
  EXPECT_FALSE(known.answers(first, now)) << "nothing is known yet";
  known.keep(first, now);
  EXPECT_TRUE(known.answers(first, now));
  EXPECT_FALSE(known.answers(first, {.allocations = 4, .grants = 1}));
  EXPECT_FALSE(known.answers(first, {.allocations = 3, .grants = 2}));

  using Change = std::function<void(Request&)>;
  const Change changes[] = {[&](Request& other) { other.send = &memory[1]; },
                            [&](Request& other) { other.recv = &memory[1]; },
                            [](Request& other) { other.call.collective = Collective::scan; },
                            [](Request& other) { other.call.type = DataType::u32; },
                            [](Request& other) { other.call.op = ReduceOp::max; },
                            [](Request& other) { ++other.call.count; },
                            [](Request& other) { other.call.scale = 2; },
                            [](Request& other) { other.call.root = 1; },
                            [](Request& other) { other.call.order = ArrayOrder::last_fastest; },
                            [](Request& other) { other.ends = {}; },
                            [&](Request& other) { other.ends = two_ends; }};
  for (const Change& change : changes) {
    Request other = first;
    change(other);
    EXPECT_FALSE(known.answers(other, now)) << "change " << &change - changes;
  }
  const auto with_end = [&](const MessageEnd& other) {
    const std::array ends{other};
    Request request = first;
    request.ends = ends;
    return known.answers(request, now);
  };
  int* const at = memory.data();
  EXPECT_TRUE(with_end(end));
  for (const MessageEnd& other :
       {MessageEnd{.sends = false, .peer = 1, .buffer = at, .count = 1},
        {.sends = true, .peer = 2, .buffer = at, .count = 1},
        {.sends = true, .peer = 1, .buffer = at + 1, .count = 1},
        {.sends = true, .peer = 1, .buffer = at, .count = 2},
        {.sends = true, .peer = 1, .buffer = at, .count = 1, .receiver = at},
        {.sends = true, .peer = 1, .buffer = at, .count = 1, .always = true}})
    EXPECT_FALSE(with_end(other));

  const auto with_options = [&](const CallOptions& options) {
    const Request other{.call = first.call,
                        .send = first.send,
                        .recv = first.recv,
                        .ends = first.ends,
                        .options = options};
    return known.answers(other, now);
  };
  EXPECT_TRUE(with_options({.algorithm = "ring", .blocking = true}));
  for (const CallOptions& options : {CallOptions{},
                                     {.algorithm = "tree"},
                                     {.algorithm = "ring", .scale = 2},
                                     {.algorithm = "ring", .blocks = 1},
                                     {.algorithm = "ring", .threads = 32},
                                     {.algorithm = "ring", .symmetric = true}})
    EXPECT_FALSE(with_options(options));

  // The symmetric memory of the call is freed.
  auto window = std::make_shared<const char>();
  known.memory.emplace_back(std::shared_ptr<const Window>(window, nullptr));
  EXPECT_TRUE(known.answers(first, now));
  window.reset();
  EXPECT_FALSE(known.answers(first, now));

  const CallOptions zero{.scale = 0.0}, negative_zero{.scale = -0.0};
  KnownCall scaled;
  scaled.keep({.call = request_of_ints, .options = zero}, now);
  EXPECT_TRUE(scaled.answers({.call = request_of_ints, .options = zero}, now));
  EXPECT_FALSE(scaled.answers({.call = request_of_ints, .options = negative_zero}, now));
}

}  // namespace
}  // namespace plait::test
