#include "transport/transport_conduct.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "support/errors.hpp"
#include "transport/flows.hpp"

namespace plait::transport {
namespace {

using plait::test::error_of;
using std::chrono::steady_clock;

constexpr std::size_t sizes[] = {1,     0,       8, 3,       4096, 32 << 10, (32 << 10) + 1, 0,
                                 65537, 1 << 20, 5, 8 << 20, 0,    12345,    3 << 20,        7};

void messages_of_many_sizes_arrive_in_order(std::unique_ptr<Transport>& transport,
                                            Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  const auto other = static_cast<std::size_t>(1 - ranks.rank());
  Buffer out(*mesh.to[other], 8 << 20), in(*mesh.from[other], 8 << 20);
  for (std::uint64_t number = 0; number < std::size(sizes); ++number) {
    const std::size_t bytes = sizes[number];
    out.fill(number);
    const Request receiving = receive(*transport, *mesh.from[other], in, bytes);
    const Request sending = send(*transport, *mesh.to[other], out, bytes);
    EXPECT_EQ(finish(*transport, *mesh.to[other], sending, *mesh.from[other], receiving), bytes);
    EXPECT_TRUE(in.begins_with(number, bytes));
  }
}

void a_message_may_be_shorter_than_its_buffer(std::unique_ptr<Transport>& transport,
                                              Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  const auto other = static_cast<std::size_t>(1 - ranks.rank());
  Buffer out(*mesh.to[other], 2 << 20), in(*mesh.from[other], 2 << 20);
  out.fill(1);
  for (const std::size_t bytes : {0, 1, 1000, 100'000, 1'500'000}) {
    std::fill(in.bytes.begin(), in.bytes.end(), std::byte{});
    const Request receiving = receive(*transport, *mesh.from[other], in, in.bytes.size());
    const Request sending = send(*transport, *mesh.to[other], out, bytes);
    EXPECT_EQ(finish(*transport, *mesh.to[other], sending, *mesh.from[other], receiving), bytes);
    EXPECT_TRUE(in.begins_with(1, bytes));
    for (std::size_t at = bytes; at < bytes + 100; ++at) EXPECT_EQ(in.bytes[at], std::byte{});
    ranks.barrier();
  }
}

void a_message_longer_than_its_buffer_is_an_error(std::unique_ptr<Transport>& transport,
                                                  Bootstrap& ranks) {
  for (const std::size_t bytes : {std::size_t{11}, std::size_t{1} << 20}) {
    Mesh mesh = connect_all(*transport, ranks);
    if (ranks.rank() == 0) {
      Buffer out(*mesh.to[1], bytes);
      const Request sending = send(*transport, *mesh.to[1], out, bytes);
      // The other rank's error may break this end, too.
      error_of([&] { finish(*transport, *mesh.to[1], sending); });
    } else {
      Buffer in(*mesh.from[0], bytes);
      const auto error = error_of([&] {
        finish(*transport, *mesh.from[0], receive(*transport, *mesh.from[0], in, bytes - 1));
      });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::bootstrap) << error->what();
      // A broken flow stays broken.
      EXPECT_TRUE(error_of([&] { mesh.from[0]->irecv(in.bytes.data(), bytes, *in.memory); }));
    }
    ranks.barrier();
  }
}

void many_messages_are_in_flight(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  const auto other = static_cast<std::size_t>(1 - ranks.rank());
  constexpr std::size_t depth = 16, rounds = 20;
  std::mt19937 random(7);  // equal on both ranks
  std::vector<Buffer> out, in;
  for (std::size_t at = 0; at < depth; ++at) {
    out.emplace_back(*mesh.to[other], 300'000);
    in.emplace_back(*mesh.from[other], 300'000);
  }
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::size_t> bytes(depth);
    for (auto& each : bytes) each = random() % (random() % 2 == 0 ? 100 : 300'000);
    std::vector<Request> sending(depth), receiving(depth);
    for (std::size_t at = 0; at < depth; ++at) {
      out[at].fill(round * depth + at);
      receiving[at] = receive(*transport, *mesh.from[other], in[at], bytes[at]);
    }
    for (std::size_t at = 0; at < depth; ++at)
      sending[at] = send(*transport, *mesh.to[other], out[at], bytes[at]);
    // The last first: the order of the tests is the caller's.
    std::size_t done = 0;
    wait_until(*transport, [&] {
      for (std::size_t at = depth; at-- > 0;) {
        std::size_t size = 0;
        if (receiving[at] != nullptr && mesh.from[other]->test(receiving[at], &size)) {
          EXPECT_EQ(size, bytes[at]);
          EXPECT_TRUE(in[at].begins_with(round * depth + at, size));
          receiving[at] = nullptr, ++done;
        }
        if (sending[at] != nullptr && mesh.to[other]->test(sending[at]))
          sending[at] = nullptr, ++done;
      }
      return done == 2 * depth;
    });
  }
}

/// Messages arrive before any buffer is posted, and more of them than the system keeps.
void messages_wait_for_late_buffers(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  constexpr std::size_t number = 16, bytes = 2 << 20;
  if (ranks.rank() == 0) {
    std::vector<Buffer> out;
    std::vector<Request> sending;
    for (std::size_t at = 0; at < number; ++at) {
      out.emplace_back(*mesh.to[1], bytes).fill(at);
      sending.push_back(send(*transport, *mesh.to[1], out.back(), bytes));
    }
    ranks.barrier();
    for (const Request request : sending) finish(*transport, *mesh.to[1], request);
  } else {
    ranks.barrier();
    std::this_thread::sleep_for(50ms);
    Buffer in(*mesh.from[0], bytes);
    for (std::size_t at = 0; at < number; ++at) {
      finish(*transport, *mesh.from[0], receive(*transport, *mesh.from[0], in, bytes));
      EXPECT_TRUE(in.begins_with(at, bytes));
    }
  }
  ranks.barrier();
}

void many_flows_between_many_ranks(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  constexpr int layers = 4;
  std::vector<Mesh> meshes;
  for (int layer = 0; layer < layers; ++layer) meshes.push_back(connect_all(*transport, ranks));
  constexpr std::size_t bytes = 50'000;
  struct Exchange {
    Flow* flow;
    Request request;
    std::uint64_t seed;
    std::unique_ptr<Buffer> buffer;
    bool receives, done = false;
  };
  for (int round = 0; round < 5; ++round) {
    std::vector<Exchange> all;
    for (std::size_t layer = 0; layer < meshes.size(); ++layer) {
      Mesh& mesh = meshes[layer];
      for (std::size_t peer = 0; peer < mesh.to.size(); ++peer) {
        const auto seed_of = [&](std::size_t from, std::size_t to) {
          return ((static_cast<std::uint64_t>(round) * 10 + layer) * 10 + from) * 10 + to;
        };
        const auto own = static_cast<std::size_t>(ranks.rank());
        auto in = std::make_unique<Buffer>(*mesh.from[peer], bytes);
        auto out = std::make_unique<Buffer>(*mesh.to[peer], bytes);
        out->fill(seed_of(own, peer));
        const Request receiving = receive(*transport, *mesh.from[peer], *in, bytes);
        all.push_back({mesh.from[peer].get(), receiving, seed_of(peer, own), std::move(in), true});
        const Request sending = send(*transport, *mesh.to[peer], *out, bytes);
        all.push_back({mesh.to[peer].get(), sending, 0, std::move(out), false});
      }
    }
    wait_until(*transport, [&] {
      bool complete = true;
      for (Exchange& each : all) {
        each.done = each.done || each.flow->test(each.request);
        complete = complete && each.done;
      }
      return complete;
    });
    for (const Exchange& each : all) {
      if (!each.receives) continue;
      EXPECT_TRUE(each.buffer->begins_with(each.seed, bytes));
    }
  }
  ranks.barrier();
}

void wake_ends_a_wait(std::unique_ptr<Transport>& transport, Bootstrap&) {
  transport->wake();
  const auto start = steady_clock::now();
  transport->wait(10s);  // woken before
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    transport->wake();
  });
  // A transport that sleeps for a short time only returns early, so only the upper bound is told.
  transport->wait(10s);
  EXPECT_LT(steady_clock::now() - start, 5s);
  other.join();
  for (int again = 0; again < 100; ++again) transport->wake();
  for (int again = 0; again < 3; ++again) transport->wait(1us);
}

/// CPU time of this thread.
std::chrono::microseconds cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

/// Also with connections, with bytes that no buffer is posted for, and with a message that the
/// other rank does not take.
void an_idle_wait_uses_next_to_no_cpu(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  const auto other = static_cast<std::size_t>(1 - ranks.rank());
  std::vector<Buffer> out;
  for (int at = 0; at < 8; ++at) {
    out.emplace_back(*mesh.to[other], 4 << 20);
    send(*transport, *mesh.to[other], out.back(), out.back().bytes.size());
  }
  ranks.barrier();
  transport->wait(100ms);
  for (const auto each : {std::chrono::microseconds(500'000), 500us}) {
    const auto before = cpu_time();
    const auto start = steady_clock::now();
    while (steady_clock::now() - start < 500ms) transport->wait(each);
    // Some transports can't tell, and look now and then.
    EXPECT_LT(cpu_time() - before, 100ms);
    if (each > 1ms && transport->properties().name.starts_with("sockets")) {
      EXPECT_LT(cpu_time() - before, 20ms);
    }
  }
  ranks.barrier();
}

void the_end_of_a_rank_is_seen(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  ranks.barrier();
  if (ranks.rank() == 1) {
    mesh = Mesh();
    transport.reset();
    ranks.barrier();
    return;
  }
  ranks.barrier();
  Buffer in(*mesh.from[1], 1000), out(*mesh.to[1], 1 << 20);
  Request receiving = nullptr, sending = nullptr;
  expect_lost(*transport, [&] {
    if (receiving == nullptr) receiving = mesh.from[1]->irecv(in.bytes.data(), 1000, *in.memory);
    if (receiving != nullptr) mesh.from[1]->test(receiving);
  });
  expect_lost(*transport, [&] {
    if (sending == nullptr) sending = mesh.to[1]->isend(out.bytes.data(), 1 << 20, *out.memory);
    if (sending != nullptr && mesh.to[1]->test(sending)) sending = nullptr;
  });
}

/// What a rank has sent before its end arrives.
void last_messages_of_a_rank_arrive(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  constexpr std::size_t number = 5, bytes = 200'000;
  Mesh mesh = connect_all(*transport, ranks);
  ranks.barrier();
  if (ranks.rank() == 1) {
    Buffer out(*mesh.to[0], bytes);
    out.fill(9);
    for (std::size_t at = 0; at < number; ++at)
      finish(*transport, *mesh.to[0], send(*transport, *mesh.to[0], out, bytes));
    out.memory.reset();
    mesh.to.clear();
    ranks.barrier();
    return;
  }
  std::vector<Buffer> in;
  std::vector<Request> receiving;
  for (std::size_t at = 0; at < number + 1; ++at) {
    in.emplace_back(*mesh.from[1], bytes);
    receiving.push_back(receive(*transport, *mesh.from[1], in.back(), bytes));
  }
  for (std::size_t at = 0; at < number; ++at) {
    EXPECT_EQ(finish(*transport, *mesh.from[1], receiving[at]), bytes);
    EXPECT_TRUE(in[at].begins_with(9, bytes));
  }
  expect_lost(*transport, [&] { mesh.from[1]->test(receiving[number]); });
  ranks.barrier();
}

void nothing_listens_there_any_more(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  auto listener = transport->listen();
  const Address address = listener->address();
  listener.reset();
  expect_lost(*transport, [&] { transport->connect(address); });
  ranks.barrier();
}

void memory_of_other_kinds_is_refused(std::unique_ptr<Transport>& transport, Bootstrap& ranks) {
  Mesh mesh = connect_all(*transport, ranks);
  if (!transport->properties().device_memory) {
    int word = 0;
    const auto error =
        error_of([&] { mesh.to[0]->register_memory(&word, sizeof word, MemoryKind::cuda); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::unsupported) << error->what();
  }
  EXPECT_FALSE(transport->properties().name.empty());
  ranks.barrier();
}

}  // namespace

const std::vector<Conduct>& transport_conduct() {
  static const std::vector<Conduct> all{
      {"MessagesOfManySizesArriveInOrder", 2, messages_of_many_sizes_arrive_in_order},
      {"AMessageMayBeShorterThanItsBuffer", 2, a_message_may_be_shorter_than_its_buffer},
      {"AMessageLongerThanItsBufferIsAnError", 2, a_message_longer_than_its_buffer_is_an_error},
      {"ManyMessagesAreInFlight", 2, many_messages_are_in_flight},
      {"MessagesWaitForLateBuffers", 2, messages_wait_for_late_buffers},
      {"ManyFlowsBetweenManyRanks", 4, many_flows_between_many_ranks},
      {"WakeEndsAWait", 1, wake_ends_a_wait},
      {"AnIdleWaitUsesNextToNoCpu", 2, an_idle_wait_uses_next_to_no_cpu},
      {"TheEndOfARankIsSeen", 2, the_end_of_a_rank_is_seen},
      {"LastMessagesOfARankArrive", 2, last_messages_of_a_rank_arrive},
      {"NothingListensThereAnyMore", 1, nothing_listens_there_any_more},
      {"MemoryOfOtherKindsIsRefused", 1, memory_of_other_kinds_is_refused},
  };
  return all;
}

}  // namespace plait::transport
