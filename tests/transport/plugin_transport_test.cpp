// What is true of network plug-ins alone: which version is taken, and what their failures become.
#include "transport/plugin/plugin_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plait/bootstrap.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "transport/flows.hpp"
#include "transport/plugin/net_interface.hpp"
#include "transport/registration_trial.hpp"
#include "transport/test_plugin_files.hpp"

namespace plait::transport {
namespace {

using net_interface::device_pointers;
using net_interface::dmabuf_pointers;
using net_interface::host_pointers;
using plait::test::error_of;
using plait::test::expect_error;
using plait::test::PluginFaults;
using plait::test::test_plugin;
using testing::AllOf;
using testing::HasSubstr;
using Scoped = PluginFaults::Scoped;

class NetPlugins : public testing::Test {
 protected:
  /// A transport connected with itself.
  struct Loop {
    std::unique_ptr<Transport> transport = make_plugin_transport(test_plugin("plait-test"), 0);
    std::vector<std::unique_ptr<Bootstrap>> alone = make_thread_bootstraps(1);
    Mesh mesh = connect_all(*transport, *alone[0]);
    SendFlow& sender = *mesh.to[0];
    ReceiveFlow& receiver = *mesh.from[0];
  };
  PluginFaults faults{"plait-test"};
};

TEST_F(NetPlugins, TheHighestVersionIsTaken) {
  const Properties properties = Loop().transport->properties();
  EXPECT_THAT(properties.name,
              AllOf(HasSubstr("PlaitTest"), HasSubstr("version 11"), HasSubstr("over loopback")));
  EXPECT_FALSE(properties.device_memory);
  EXPECT_EQ(properties.bandwidth, 10'000);
  EXPECT_EQ(properties.latency, 2.5);
  EXPECT_EQ(properties.largest_message, std::size_t{1} << 30);
}

TEST_F(NetPlugins, EverythingIsGivenBack) {
  {
    Loop loop;
    const Buffer buffer(loop.sender, 100);
    EXPECT_EQ(faults.get("contexts"), 1);
    EXPECT_EQ(faults.get("comms"), 2);
    EXPECT_EQ(faults.get("registrations"), 1);
  }
  faults.expect_nothing_is_left();
}

TEST_F(NetPlugins, NoMoreRequestsThanAPlugInTakes) {
  Loop loop;
  Buffer in(loop.receiver, 8);
  std::vector<Request> requests;
  while (const Request request = loop.receiver.irecv(in.bytes.data(), 8, *in.memory))
    requests.push_back(request);
  EXPECT_EQ(requests.size(), 32U);
  Buffer out(loop.sender, 8);
  for (const Request request : requests) {
    finish(*loop.transport, loop.sender, send(*loop.transport, loop.sender, out, 8));
    finish(*loop.transport, loop.receiver, request);
  }
}

TEST_F(NetPlugins, AFailedSendIsALostRank) {
  const Scoped fault(faults, "fail_after", 3);  // the first one says who this rank is
  Loop loop;
  Buffer out(loop.sender, 8);
  finish(*loop.transport, loop.sender, send(*loop.transport, loop.sender, out, 8));
  finish(*loop.transport, loop.sender, send(*loop.transport, loop.sender, out, 8));
  for (int again = 0; again < 2; ++again) {
    expect_error(error_of([&] { loop.sender.isend(out.bytes.data(), 8, *out.memory); }),
                 ErrorCode::rank_lost,
                 AllOf(HasSubstr("PlaitTest"), HasSubstr("isend: system error (2)")));
  }
}

/// The other end is gone, and the flow takes no more. What came before is there.
TEST_F(NetPlugins, WhatCameBeforeTheEndIsReceived) {
  Loop loop;
  std::vector<std::unique_ptr<Buffer>> in;
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) {
    in.push_back(std::make_unique<Buffer>(loop.receiver, 8));
    requests.push_back(receive(*loop.transport, loop.receiver, *in.back(), 8));
  }
  {
    Buffer out(loop.sender, 8);
    for (std::uint64_t number = 0; number < 2; ++number) {
      out.fill(number);
      finish(*loop.transport, loop.sender, send(*loop.transport, loop.sender, out, 8));
    }
  }
  loop.mesh.to[0].reset();
  EXPECT_EQ(finish(*loop.transport, loop.receiver, requests[0]), 8U);
  const auto takes_no_more = [&] {
    return error_of([&] { loop.receiver.irecv(in[0]->bytes.data(), 8, *in[0]->memory); });
  };
  auto error = takes_no_more();
  for (int again = 0; again < 20 && !error; ++again) error = takes_no_more();
  expect_error(error, ErrorCode::rank_lost, HasSubstr("irecv: remote error (6)"));
  EXPECT_EQ(finish(*loop.transport, loop.receiver, requests[1]), 8U);
  EXPECT_TRUE(in[1]->begins_with(1, 8U));
  expect_error(error_of([&] { finish(*loop.transport, loop.receiver, requests[2]); }),
               ErrorCode::rank_lost, HasSubstr("test: remote error (6)"));
}

TEST_F(NetPlugins, AFailedRegistrationIsNot) {
  Loop loop;
  const Scoped fault(faults, "fail_register", 0);
  int word = 0;
  expect_error(error_of([&] { loop.sender.register_memory(&word, 4, MemoryKind::host); }),
               ErrorCode::bootstrap, HasSubstr("regMr: system error (2)"));
}

TEST_F(NetPlugins, AFailedInitNamesThePlugIn) {
  const Scoped fault(faults, "fail_init", 1);
  expect_error(error_of([&] { make_plugin_transport(test_plugin("plait-test"), 0); }),
               ErrorCode::bootstrap, AllOf(HasSubstr("plait-test.so"), HasSubstr("init")));
}

TEST_F(NetPlugins, MessagesIntoMemoryOfGpusAreFlushed) {
  const Scoped fault(faults, "pointers", 3);
  Loop loop;
  EXPECT_TRUE(loop.transport->properties().device_memory);
  Buffer out(loop.sender, 8), in(loop.receiver, 8);
  std::uint64_t number = 0;
  for (const auto kind : {MemoryKind::cuda, MemoryKind::hip, MemoryKind::host}) {
    const int before = faults.get("flushes");
    out.fill(++number);
    const auto memory = loop.receiver.register_memory(in.bytes.data(), 8, kind);
    const Request receiving = loop.receiver.irecv(in.bytes.data(), 8, *memory);
    finish(*loop.transport, loop.sender, send(*loop.transport, loop.sender, out, 8));
    EXPECT_EQ(finish(*loop.transport, loop.receiver, receiving), 8U);
    EXPECT_TRUE(in.begins_with(number, 8U));
    EXPECT_EQ(faults.get("flushes") - before, kind == MemoryKind::host ? 0 : 1);
  }
}

TEST_F(NetPlugins, TakeMemoryOfGpusAsDmaBufs) {
  constexpr std::size_t size = 8192, offset = 4096;
  UniqueFd file(memfd_create("a GPU's memory", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), size), 0);
  bool is_exported = true;
  const ExportDmaBuf export_dma_buf = [&](void*, std::size_t bytes) {
    EXPECT_EQ(bytes, size - offset);
    return is_exported ? DmaBuf{.descriptor = UniqueFd(dup(file.get())), .offset = offset}
                       : DmaBuf{};
  };
  std::vector<std::byte> memory(size - offset);
  const auto dma_bufs_made = [&](int pointers) {
    const Scoped fault(faults, "pointers", pointers);
    const int before = faults.get("dma_bufs");
    const auto transport = make_plugin_transport(test_plugin("plait-test"), 0, export_dma_buf);
    EXPECT_TRUE(transport->properties().device_memory);
    const auto alone = make_thread_bootstraps(1);
    const Mesh mesh = connect_all(*transport, *alone[0]);
    for (Flow* const flow :
         {static_cast<Flow*>(mesh.to[0].get()), static_cast<Flow*>(mesh.from[0].get())})
      static_cast<void>(flow->register_memory(memory.data(), memory.size(), MemoryKind::cuda));
    return faults.get("dma_bufs") - before;
  };
  EXPECT_EQ(dma_bufs_made(host_pointers | dmabuf_pointers), 2);
  EXPECT_EQ(dma_bufs_made(host_pointers | device_pointers), 0);
  is_exported = false;
  EXPECT_EQ(dma_bufs_made(host_pointers | device_pointers | dmabuf_pointers), 0);
  expect_error(error_of([&] { dma_bufs_made(host_pointers | dmabuf_pointers); }),
               ErrorCode::unsupported, HasSubstr("can't use a GPU's memory"));
}

TEST_F(NetPlugins, MemoryIsTriedBeforeItIsUsed) {
  std::vector<std::byte> sent(64), received(64);
  const auto error = [&] {
    const auto transport = make_plugin_transport(test_plugin("plait-test"), 0);
    return error_of([&] { try_to_register(*transport, sent, received, MemoryKind::cuda); });
  };
  expect_error(error(), ErrorCode::unsupported, HasSubstr("can't use a GPU's memory"));
  const Scoped fault(faults, "pointers", 3);
  EXPECT_NO_THROW(try_to_register(*make_plugin_transport(test_plugin("plait-test"), 0), sent,
                                  received, MemoryKind::cuda));
  const Scoped second(faults, "fail_device_register", 1);
  expect_error(error(), ErrorCode::unsupported, HasSubstr("regMr: system error (2)"));
  EXPECT_EQ(faults.get("comms"), 0);
  EXPECT_EQ(faults.get("registrations"), 0);
}

TEST_F(NetPlugins, WrongNamesAndDevicesAreRefused) {
  const auto refused = [](const std::string& name, int device) {
    return error_of([&] { make_plugin_transport(name, device); });
  };
  expect_error(refused(test_plugin("plait-test"), 1), ErrorCode::invalid_argument,
               HasSubstr("device 1 of 1"));
  expect_error(refused(test_plugin("plait-test"), -1), ErrorCode::invalid_argument,
               HasSubstr("device -1 of 1"));
  expect_error(refused(test_plugin("plait-test-none"), 0), ErrorCode::invalid_argument,
               HasSubstr("none of the tables"));
  expect_error(refused("no-such-plug-in", 0), ErrorCode::invalid_argument,
               HasSubstr("libnccl-net-no-such-plug-in.so"));
  expect_error(refused("/no/such/file.so", 0), ErrorCode::invalid_argument,
               HasSubstr("No such file"));
  expect_error(refused("/dev/zero", 0), ErrorCode::invalid_argument, HasSubstr("/dev/zero"));
}

}  // namespace
}  // namespace plait::transport
