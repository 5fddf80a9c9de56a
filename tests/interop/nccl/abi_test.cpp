// Compares the own declarations of NCCL's interface with an installed nccl.h, most at compile time.
#include "interop/nccl/abi.hpp"

#include <gtest/gtest.h>
#include <nccl.h>

#include <type_traits>

namespace plait::nccl::test {
namespace {

#define SAME_VALUE(OWN, THEIRS) static_assert(static_cast<int>(OWN) == static_cast<int>(THEIRS))
SAME_VALUE(Result::success, ncclSuccess);
SAME_VALUE(Result::unhandled_cuda_error, ncclUnhandledCudaError);
SAME_VALUE(Result::system_error, ncclSystemError);
SAME_VALUE(Result::internal_error, ncclInternalError);
SAME_VALUE(Result::invalid_argument, ncclInvalidArgument);
SAME_VALUE(Result::invalid_usage, ncclInvalidUsage);
SAME_VALUE(Result::remote_error, ncclRemoteError);
SAME_VALUE(Result::in_progress, ncclInProgress);
static_assert(result_count >= ncclNumResults || NCCL_VERSION_CODE > 23203);
SAME_VALUE(int8, ncclInt8);
SAME_VALUE(uint8, ncclUint8);
SAME_VALUE(int32, ncclInt32);
SAME_VALUE(uint32, ncclUint32);
SAME_VALUE(int64, ncclInt64);
SAME_VALUE(uint64, ncclUint64);
SAME_VALUE(float16, ncclFloat16);
SAME_VALUE(float32, ncclFloat32);
SAME_VALUE(float64, ncclFloat64);
SAME_VALUE(bfloat16, ncclBfloat16);
SAME_VALUE(float8e4m3, ncclFloat8e4m3);
SAME_VALUE(float8e5m2, ncclFloat8e5m2);
SAME_VALUE(type_count, ncclNumTypes);
SAME_VALUE(op_sum, ncclSum);
SAME_VALUE(op_prod, ncclProd);
SAME_VALUE(op_max, ncclMax);
SAME_VALUE(op_min, ncclMin);
SAME_VALUE(op_avg, ncclAvg);
SAME_VALUE(op_count, ncclNumOps);
SAME_VALUE(op_last, ncclMaxRedOp);
SAME_VALUE(scalar_on_device, ncclScalarDevice);
SAME_VALUE(scalar_on_host, ncclScalarHostImmediate);
SAME_VALUE(unset, NCCL_CONFIG_UNDEF_INT);
SAME_VALUE(no_colour, NCCL_SPLIT_NOCOLOR);
SAME_VALUE(shrink_aborts, NCCL_SHRINK_ABORT);
SAME_VALUE(window_for_collectives, NCCL_WIN_COLL_SYMMETRIC);
#if NCCL_VERSION_CODE >= 22900
static_assert(sizeof(AwaitedSignals) == sizeof(ncclWaitSignalDesc_t));
#endif

static_assert(sizeof(IdBytes) == sizeof(ncclUniqueId));
static_assert(sizeof(Simulation) == sizeof(ncclSimInfo_t));
static_assert(sizeof(Config) >= sizeof(ncclConfig_t) || NCCL_VERSION_CODE > 23203);

#define SAME_PLACE(OWN, MEMBER, THEIRS, THEIR_MEMBER)                      \
  static_assert(offsetof(OWN, MEMBER) == offsetof(THEIRS, THEIR_MEMBER) && \
                sizeof(OWN::MEMBER) == sizeof(THEIRS::THEIR_MEMBER))
SAME_PLACE(Config, size, ncclConfig_t, size);
SAME_PLACE(Config, magic, ncclConfig_t, magic);
SAME_PLACE(Config, version, ncclConfig_t, version);
SAME_PLACE(Config, blocking, ncclConfig_t, blocking);
SAME_PLACE(Config, cga_cluster_size, ncclConfig_t, cgaClusterSize);
SAME_PLACE(Config, net_name, ncclConfig_t, netName);
SAME_PLACE(Config, traffic_class, ncclConfig_t, trafficClass);
SAME_PLACE(Config, comm_name, ncclConfig_t, commName);
SAME_PLACE(Config, nvlink_centric_scheduling, ncclConfig_t, nvlinkCentricSched);
SAME_PLACE(Simulation, estimated_time, ncclSimInfo_t, estimatedTime);

constexpr bool initialisers_agree() {
  constexpr ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  constexpr ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
  return config.magic == magic_of_config && simulation.magic == magic_of_simulation;
}
static_assert(initialisers_agree());

// Functions agree if their parameters and results are passed alike: pointers, numbers of one size,
// and structures of one size.
template <class Own, class Theirs>
constexpr bool passed_alike =
    sizeof(Own) == sizeof(Theirs) && std::is_pointer_v<Own> ==
                                         std::is_pointer_v<Theirs>&& std::is_class_v<Own> ==
                                         std::is_class_v<Theirs>;
template <>
constexpr bool passed_alike<void, void> = true;

template <class Own, class Theirs>
struct Compare : std::false_type {};
template <class R, class... P, class TheirR, class... TheirP>
requires(sizeof...(P) == sizeof...(TheirP)) struct Compare<R(P...), TheirR(TheirP...)>
    : std::bool_constant<passed_alike<R, TheirR> && (passed_alike<P, TheirP> && ...)> {
};

}  // namespace
}  // namespace plait::nccl::test

// The tables, without the declarations, which would not go together with those of nccl.h.
#define PLAIT_NCCL_TABLES_ONLY
#include "interop/nccl/functions.hpp"

namespace plait::nccl::test {
namespace {

#define PLAIT_COMPARE(RESULT, NAME, PARAMETERS)                                               \
  static_assert(Compare<RESULT PARAMETERS, std::remove_reference_t<decltype(::NAME)>>::value, \
                #NAME " has other parameters in nccl.h");
PLAIT_NCCL_FUNCTIONS(PLAIT_COMPARE)
#define PLAIT_COMPARE_COLLECTIVE(NAME, COLLECTIVE, OP, ROOT) \
  PLAIT_COMPARE(Result, nccl##NAME, (PLAIT_NCCL_PARAMETERS(OP, ROOT)))
PLAIT_NCCL_COLLECTIVES(PLAIT_COMPARE_COLLECTIVE)
#undef PLAIT_COMPARE_COLLECTIVE
#undef PLAIT_COMPARE

// What a program does that was compiled with nccl.h.
TEST(Abi, AProgramOfNcclRuns) {
  int code = 0;
  ASSERT_EQ(ncclGetVersion(&code), ncclSuccess);
  EXPECT_EQ(code, version);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.commName = "a name";
  ncclComm_t comm = nullptr, part = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess)
      << ncclGetLastError(nullptr);
  double from[4] = {1, 2, 3, 4}, to[4] = {}, factor = 3;
  ncclRedOp_t op;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, ncclDouble, ncclScalarHostImmediate, comm),
            ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(from, to, 4, ncclDouble, op, comm, nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(to[3], 12);
  EXPECT_EQ(ncclReduce(from, to, 4, static_cast<ncclDataType_t>(99), ncclSum, 0, comm, nullptr),
            ncclInvalidArgument);
  ASSERT_EQ(ncclCommSplit(comm, 0, 0, &part, nullptr), ncclSuccess);
  ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(from, to, 4, ncclDouble, ncclSum, part, nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&simulation), ncclSuccess);
  EXPECT_GE(simulation.estimatedTime, 0);
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(part, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace plait::nccl::test
