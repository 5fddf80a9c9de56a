// NCCL as a peer of plait-bench, with a stand-in for its library.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/peer_checks.hpp"
#include "bench/peers/nccl.hpp"
#include "bench/stub_nccl/stub_nccl.hpp"
#include "plait/error.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"

namespace plait::bench {
namespace {

using test::error_of;
using test::expect_error;
using test::ScopedEnvironment;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Nccl : public testing::Test {
 protected:
  static void SetUpTestSuite() { MPI_Comm_dup(MPI_COMM_WORLD, &ranks_); }
  static void TearDownTestSuite() { MPI_Comm_free(&ranks_); }

  /// Lets PLAIT_NCCL_LIB name a stand-in from now on, and resets the stand-in.
  StubNccl& use(const char* file) {
    library_.reset();
    library_.emplace("PLAIT_NCCL_LIB", folder() + "/" + file);
    void* const handle = dlopen((folder() + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(dlerror());
    auto& stub = *reinterpret_cast<StubNccl* (*)()>(dlsym(handle, "stub_nccl"))();
    stub = {};
    stub.ranks = ranks_;
    stub.enqueue = [this](CUstream_st* stream, std::function<void()> body) {
      backend_of(comm).host_call(stream, std::move(body));
    };
    return stub;
  }
  static std::string folder() { return PLAIT_STUB_NCCL_FOLDER; }

  std::shared_ptr<NcclGroup> create() { return NcclGroup::create(comm, why_not); }
  std::shared_ptr<NcclGroup> create_or_throw() {
    auto group = create();
    if (!group) throw std::runtime_error(why_not);
    return group;
  }
  Task task(const Call& call, const Arena& arena, bool in_place = false) const {
    return make_task(call, message_bytes, in_place, false, arena, comm.rank(), comm.size());
  }
  /// The calls that one task makes.
  std::vector<std::string> calls_of(StubNccl& stub, Contender& contender, const Task& task) {
    stub.calls.clear();
    contender.enqueue(task, nullptr);
    comm.synchronize();
    comm.bootstrap().barrier();
    return stub.calls;
  }

  Communicator comm = communicator(BackendKind::cuda);
  std::string why_not;

 private:
  static inline MPI_Comm ranks_ = MPI_COMM_NULL;  // the stand-in's own
  std::optional<ScopedEnvironment> library_;
};

/// NCCL has no scan, no pre-multiplied sum without an operator object, and no exchange of messages
/// in place. It reduces the types up to f64. Sums of complex numbers are sums of floats.
bool nccl_serves(const Task& task) {
  const Call& call = task.call;
  if (is_scan(call.collective) || (task.in_place && call.collective == Collective::all_to_all))
    return false;
  if (!facts_of(call.collective).reduces) return true;
  return call.op <= ReduceOp::avg &&
         (call.type <= DataType::f64 || (is_complex(call.type) && call.op != ReduceOp::prod));
}
/// The stand-in reduces with MPI, so it has MPI's types. It averages floats alone.
bool has_stub(const Task& task) {
  const Call& call = task.call;
  if (!facts_of(call.collective).reduces || !nccl_serves(task)) return true;
  if (call.op == ReduceOp::avg) return !is_integer(call.type) && size_of(call.type) >= 4;
  return size_of(call.type) >= 4 || (!is_float(call.type) && call.op != ReduceOp::sum);
}

TEST_F(Nccl, HasRightResultsInBothKindsOfMemory) {
  StubNccl& stub = use("libstub_nccl.so");
  {
    const auto group = create_or_throw();
    EXPECT_EQ(stub.communicators, 1);
    EXPECT_TRUE(group->has_windows());
    const Arena ordinary(ordinary_memory(comm), message_bytes),
        windows(group->window_memory(), message_bytes);
    EXPECT_EQ(stub.windows, 2);
    for (const bool symmetric : {false, true}) {
      const auto peer = symmetric ? group->contender(Memory::symmetric, windows)
                                  : group->contender(Memory::ordinary, ordinary);
      EXPECT_EQ(peer->name(), symmetric ? "peer:nccl-symmetric" : "peer:nccl");
      check_all(comm, *peer, nccl_serves, has_stub);
    }
  }
  EXPECT_EQ(stub.communicators, 0);
  EXPECT_EQ(stub.windows, 0);
  EXPECT_EQ(stub.allocations, 0);
}

TEST_F(Nccl, HasNoBarrier) {
  use("libstub_nccl.so");
  const auto group = create_or_throw();
  const Arena arena(ordinary_memory(comm), message_bytes);
  const auto peer = group->contender(Memory::ordinary, arena);
  expect_error(error_of([&] { peer->enqueue(barrier_task(comm, arena), nullptr); }),
               ErrorCode::unsupported, testing::StrEq("peer:nccl: no barrier"));
}

/// The numbers are those of nccl.h. Moved bytes would be right with the number of another type of
/// the same size, too.
TEST_F(Nccl, NumbersTypesAndOperationsAsNcclDoes) {
  StubNccl& stub = use("libstub_nccl.so");
  const auto group = create_or_throw();
  const Arena arena(ordinary_memory(comm), message_bytes);
  const auto peer = group->contender(Memory::ordinary, arena);
  const std::vector<DataType> types{DataType::i8,   DataType::u8,     DataType::i32,
                                    DataType::u32,  DataType::i64,    DataType::u64,
                                    DataType::f16,  DataType::f32,    DataType::f64,
                                    DataType::bf16, DataType::f8e4m3, DataType::f8e5m2};
  for (std::size_t number = 0; number < types.size(); ++number) {
    const Task gathers = task({.collective = Collective::all_gather, .type = types[number]}, arena);
    EXPECT_THAT(calls_of(stub, *peer, gathers),
                ElementsAre(fmt::format("ncclAllGather {} {}", gathers.call.count, number)));
  }
  // Types that NCCL lacks are moved as words or bytes. One with complex numbers has two words.
  const std::size_t bytes =
      task({.collective = Collective::all_gather, .type = DataType::u64}, arena).call.block_bytes();
  for (const auto& [type, word, number] :
       std::vector<std::tuple<DataType, std::size_t, int>>{{DataType::boolean, 1, 1},
                                                           {DataType::i16, 1, 1},
                                                           {DataType::u16, 1, 1},
                                                           {DataType::complex_f32, 4, 3},
                                                           {DataType::f64_i32, 8, 5}})
    EXPECT_THAT(
        calls_of(stub, *peer, task({.collective = Collective::all_gather, .type = type}, arena)),
        ElementsAre(fmt::format("ncclAllGather {} {}", bytes / word, number)))
        << name_of(type);
  EXPECT_THAT(
      calls_of(stub, *peer,
               task({.collective = Collective::all_reduce, .type = DataType::complex_f64}, arena)),
      ElementsAre("ncclAllReduce 74 8 0"));
  const std::vector<ReduceOp> ops{ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                  ReduceOp::avg};
  for (std::size_t number = 0; number < ops.size(); ++number) {
    const Call sums{.collective = Collective::all_reduce, .type = DataType::f32, .op = ops[number]};
    EXPECT_THAT(calls_of(stub, *peer, task(sums, arena)),
                ElementsAre(fmt::format("ncclAllReduce 150 7 {}", number)));
  }
}

/// Every message of a call is in one group. Otherwise ranks could wait for each other.
TEST_F(Nccl, ExchangesMessagesInOneGroup) {
  StubNccl& stub = use("libstub_nccl.so");
  const auto group = create_or_throw();
  const Arena arena(ordinary_memory(comm), message_bytes);
  const auto peer = group->contender(Memory::ordinary, arena);
  const int ranks = comm.size(), last = ranks - 1;
  const bool root = comm.rank() == last;
  const auto made = [&](Collective collective) {
    const Task one = task({.collective = collective, .type = DataType::f32, .root = last}, arena);
    return std::pair(calls_of(stub, *peer, one), fmt::format(" {} 7 ", one.call.count));
  };
  const auto expect_calls = [&](Collective collective, bool sends_to_all, bool sends_to_root,
                                bool receives_from_all, bool receives_from_root) {
    const auto [calls, arguments] = made(collective);
    std::vector<std::string> wanted{"ncclGroupStart"};
    for (int rank = 0; rank < ranks; ++rank) {
      if (sends_to_all || (sends_to_root && rank == last))
        wanted.push_back(fmt::format("ncclSend{}{}", arguments, rank));
      if (receives_from_all || (receives_from_root && rank == last))
        wanted.push_back(fmt::format("ncclRecv{}{}", arguments, rank));
    }
    wanted.emplace_back("ncclGroupEnd");
    EXPECT_EQ(calls, wanted) << name_of(collective);
  };
  expect_calls(Collective::all_to_all, true, false, true, false);
  expect_calls(Collective::gather, false, true, root, false);
  expect_calls(Collective::scatter, root, false, false, true);
  const auto [calls, arguments] = made(Collective::send_recv);
  EXPECT_THAT(calls,
              ElementsAre("ncclGroupStart",
                          fmt::format("ncclSend{}{}", arguments, (comm.rank() + 1) % ranks),
                          fmt::format("ncclRecv{}{}", arguments, (comm.rank() + ranks - 1) % ranks),
                          "ncclGroupEnd"));
}

/// Windows are whole pages of 2 MiB, each registered as symmetric before it is used, and given back
/// before their communicator.
TEST_F(Nccl, RegistersWholePagesAsWindows) {
  StubNccl& stub = use("libstub_nccl.so");
  auto group = create_or_throw();
  stub.calls.clear();
  Allocation memory = group->window_memory()((std::size_t{2} << 20) + 1);
  EXPECT_THAT(stub.calls, ElementsAre("ncclMemAlloc 4194304", "ncclCommWindowRegister 4194304 1"));
  group.reset();
  EXPECT_EQ(stub.communicators, 1) << "the memory still needs it";
  stub.calls.clear();
  memory = {};
  EXPECT_THAT(stub.calls, ElementsAre("ncclCommWindowDeregister", "ncclMemFree"));
  EXPECT_EQ(stub.communicators, 0);
}

TEST_F(Nccl, FailsOnAllRanksWhereOneFails) {
  StubNccl& stub = use("libstub_nccl.so");
  const int last = comm.size() - 1;
  const auto fails_on = [&](int rank, const char* function) {
    stub.fails = comm.rank() == rank ? function : "";
  };
  fails_on(0, "ncclGetUniqueId");
  expect_error(error_of([&] { create(); }), ErrorCode::backend,
               HasSubstr("ncclGetUniqueId: stub: failure"));
  fails_on(last, "ncclCommInitRank");
  expect_error(error_of([&] { create(); }), ErrorCode::backend,
               HasSubstr("ncclCommInitRank: stub: failure"));
  EXPECT_EQ(stub.communicators, 0);
  fails_on(last, "");
  const auto group = create_or_throw();
  const auto allocate = [&] { group->window_memory()(1); };
  fails_on(last, "ncclMemAlloc");
  expect_error(error_of(allocate), ErrorCode::backend, HasSubstr("ncclMemAlloc: stub: failure"));
  fails_on(last, "");
  stub.makes_windows = comm.rank() != last;
  expect_error(error_of(allocate), ErrorCode::unsupported,
               HasSubstr("ncclCommWindowRegister: NCCL made no window"));
  EXPECT_EQ(stub.windows, 0);
  EXPECT_EQ(stub.allocations, 0);
  const Arena arena(ordinary_memory(comm), message_bytes);
  stub.fails = "ncclAllReduce";
  const auto peer = group->contender(Memory::ordinary, arena);
  expect_error(error_of([&] {
                 peer->enqueue(task({.collective = Collective::all_reduce}, arena), nullptr);
               }),
               ErrorCode::backend, testing::StrEq("ncclAllReduce: stub: failure"));
}

TEST_F(Nccl, OfDifferentVersionsIsRefused) {
  StubNccl& stub = use("libstub_nccl.so");
  if (comm.rank() == 0) stub.version = 22703;
  EXPECT_FALSE(create());
  EXPECT_EQ(why_not, "ranks found NCCL 22703 and 22809");
  EXPECT_THAT(stub.calls, IsEmpty());
}

TEST_F(Nccl, OfOldVersionsHasNoWindowsAndNoSmallFloats) {
  for (const auto& [file, version] : std::vector<std::pair<const char*, int>>{
           {"libstub_nccl.so", 22602}, {"libstub_nccl_old.so", 22809}}) {
    use(file).version = version;
    const auto group = create_or_throw();
    EXPECT_FALSE(group->has_windows());
  }
  StubNccl& stub = use("libstub_nccl_old.so");
  const Arena arena(ordinary_memory(comm), message_bytes);
  for (const int version : {22305, 22403}) {
    stub.version = version;
    const auto group = create_or_throw();
    const auto peer = group->contender(Memory::ordinary, arena);
    const auto error = error_of([&] {
      peer->enqueue(task({.collective = Collective::all_gather, .type = DataType::f8e5m2}, arena),
                    nullptr);
      comm.synchronize();
    });
    if (version < 22400)
      expect_error(error, ErrorCode::unsupported, testing::StrEq("peer:nccl: no sum of f8e5m2"));
    else EXPECT_FALSE(error.has_value()) << error->what();
  }
}

TEST_F(Nccl, TellsItsVersion) {
  StubNccl& stub = use("libstub_nccl.so");
  for (const auto& [code, text] : std::vector<std::pair<int, const char*>>{
           {22809, "2.28.9"}, {21005, "2.10.5"}, {2804, "2.8.4"}}) {
    stub.version = code;
    EXPECT_EQ(NcclLibrary::load("", why_not)->version_text(), text);
  }
}

/// The reason is that of the rank that lacks it, on all ranks.
TEST_F(Nccl, IsMissingOnAllRanksWhereOneLacksIt) {
  use("libstub_nccl.so");
  const int last = comm.size() - 1;
  {
    std::optional<ScopedEnvironment> nowhere;
    if (comm.rank() == last) nowhere.emplace("PLAIT_NCCL_LIB", "/nowhere/libnccl.so.2");
    EXPECT_FALSE(create());
    EXPECT_THAT(why_not, testing::StartsWith(fmt::format(
                             "NCCL: rank {}: /nowhere/libnccl.so.2: cannot open", last)));
  }
  use("libstub_nccl_incomplete.so");
  EXPECT_FALSE(create());
  EXPECT_EQ(why_not, "NCCL: rank 0: the library lacks functions of NCCL");
  Communicator host = communicator(BackendKind::host);
  EXPECT_FALSE(NcclGroup::create(host, why_not));
  EXPECT_EQ(why_not, "NCCL and RCCL need GPUs");
}

/// The default peer must not end a run on one GPU, where NCCL would refuse the ranks.
TEST_F(Nccl, IsNotForRanksThatShareADevice) {
  const ScopedEnvironment share("PLAIT_SHARE_DEVICES", "1");
  CommunicatorOptions options;
  options.backend = BackendKind::cuda;
  options.device = 0;
  options.timeout = test::patience;
  std::thread another([&] {  // because a thread goes on using its device
    Communicator shared = make_communicator(MPI_COMM_WORLD, options);
    EXPECT_FALSE(NcclGroup::create(shared, why_not));
  });
  another.join();
  EXPECT_EQ(why_not, "NCCL and RCCL refuse ranks that share a device");
}

/// Multicast is off, unless a user wants it.
TEST_F(Nccl, LeavesMulticastOff) {
  use("libstub_nccl.so");
  unsetenv("NCCL_NVLS_ENABLE");
  ASSERT_TRUE(NcclLibrary::load("", why_not)) << why_not;
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  const ScopedEnvironment wanted("NCCL_NVLS_ENABLE", "1");
  ASSERT_TRUE(NcclLibrary::load("", why_not)) << why_not;
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "1");
}

}  // namespace
}  // namespace plait::bench
