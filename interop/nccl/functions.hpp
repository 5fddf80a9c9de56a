// The 97 functions of NCCL 2.32, as tables and as declarations. tests/interop/nccl compares the
// tables with nccl.h and with the names that the library exports.
#pragma once
#include "interop/nccl/abi.hpp"
#include "plait/collective_table.h"

// A row is a function: F(result, name, parameters).
// clang-format off

/// The collectives of 2.28.9, each as ncclNAME and, since 2.31, with a configuration as
/// ncclNAMEConfig. A row says what it is in Plait, and whether it has an operation and a root:
/// ROW(NAME, name, op, root), as in plait/collective_table.h.
#define PLAIT_NCCL_COLLECTIVES(ROW)                                                                \
  ROW(Reduce, reduce, op, root)                                                                    \
  ROW(Broadcast, broadcast, no_op, root)                                                           \
  ROW(AllReduce, all_reduce, op, no_root)                                                          \
  ROW(ReduceScatter, reduce_scatter, op, no_root)                                                  \
  ROW(AllGather, all_gather, no_op, no_root)                                                       \
  ROW(AlltoAll, all_to_all, no_op, no_root)                                                        \
  ROW(Gather, gather, no_op, root)                                                                 \
  ROW(Scatter, scatter, no_op, root)
#define PLAIT_NCCL_PARAMETERS(OP, ROOT)                                                            \
  const void* send, void* recv, std::size_t count, TypeNumber type,                                \
      PLAIT_IF_##OP(OpNumber op, ) PLAIT_IF_##ROOT(int root, ) CommHandle comm, StreamHandle stream

/// The other functions of 2.28.9 that Plait has.
#define PLAIT_NCCL_FUNCTIONS(F)                                                                    \
  F(Result, ncclGetVersion, (int* code))                                                           \
  F(Result, ncclGetUniqueId, (IdBytes* id))                                                        \
  F(Result, ncclCommInitRank, (CommHandle* comm, int ranks, IdBytes id, int rank))                 \
  F(Result, ncclCommInitRankConfig,                                                                \
    (CommHandle* comm, int ranks, IdBytes id, int rank, Config* config))                           \
  F(Result, ncclCommInitRankScalable,                                                              \
    (CommHandle* comm, int ranks, int rank, int ids, IdBytes* id, Config* config))                 \
  F(Result, ncclCommInitAll, (CommHandle* comms, int devices, const int* list))                    \
  F(Result, ncclCommSplit,                                                                         \
    (CommHandle comm, int colour, int key, CommHandle* part, Config* config))                      \
  F(Result, ncclCommShrink,                                                                        \
    (CommHandle comm, int* excluded, int count, CommHandle* rest, Config* config, int flags))      \
  F(Result, ncclCommFinalize, (CommHandle comm))                                                   \
  F(Result, ncclCommDestroy, (CommHandle comm))                                                    \
  F(Result, ncclCommAbort, (CommHandle comm))                                                      \
  F(Result, ncclCommRevoke, (CommHandle comm, int flags))                                          \
  F(const char*, ncclGetErrorString, (Result result))                                              \
  F(const char*, ncclGetLastError, (CommHandle comm))                                              \
  F(Result, ncclCommGetAsyncError, (CommHandle comm, Result* error))                               \
  F(Result, ncclCommCount, (const CommHandle comm, int* count))                                    \
  F(Result, ncclCommCuDevice, (const CommHandle comm, int* device))                                \
  F(Result, ncclCommUserRank, (const CommHandle comm, int* rank))                                  \
  F(Result, ncclCommRegister,                                                                      \
    (const CommHandle comm, void* buffer, std::size_t bytes, void** handle))                       \
  F(Result, ncclCommDeregister, (const CommHandle comm, void* handle))                             \
  F(Result, ncclCommWindowRegister,                                                                \
    (CommHandle comm, void* buffer, std::size_t bytes, WindowHandle* window, int flags))           \
  F(Result, ncclCommWindowDeregister, (CommHandle comm, WindowHandle window))                      \
  F(Result, ncclMemAlloc, (void** pointer, std::size_t bytes))                                     \
  F(Result, ncclMemFree, (void* pointer))                                                          \
  F(Result, ncclRedOpCreatePreMulSum,                                                              \
    (OpNumber* op, void* scalar, TypeNumber type, ResidenceNumber residence, CommHandle comm))     \
  F(Result, ncclRedOpDestroy, (OpNumber op, CommHandle comm))                                      \
  F(Result, ncclBcast,                                                                             \
    (void* buffer, std::size_t count, TypeNumber type, int root, CommHandle comm,                  \
     StreamHandle stream))                                                                         \
  F(Result, ncclSend,                                                                              \
    (const void* send, std::size_t count, TypeNumber type, int peer, CommHandle comm,              \
     StreamHandle stream))                                                                         \
  F(Result, ncclRecv,                                                                              \
    (void* recv, std::size_t count, TypeNumber type, int peer, CommHandle comm,                    \
     StreamHandle stream))                                                                         \
  F(Result, ncclGroupStart, ())                                                                    \
  F(Result, ncclGroupEnd, ())                                                                      \
  F(Result, ncclGroupSimulateEnd, (Simulation* simulation))                                        \
  F(void, ncclResetDebugInit, ())

/// Later ones that Plait has, and one that no header declares.
#define PLAIT_NCCL_LATER_FUNCTIONS(F)                                                              \
  F(Result, ncclCommQueryProperties, (CommHandle comm, Properties* properties))                    \
  F(Result, ncclPutSignal,                                                                         \
    (const void* source, std::size_t count, TypeNumber type, int peer, WindowHandle window,        \
     std::size_t offset, int index, int context, unsigned flags, CommHandle comm,                  \
     StreamHandle stream))                                                                         \
  F(Result, ncclSignal,                                                                            \
    (int peer, int index, int context, unsigned flags, CommHandle comm, StreamHandle stream))      \
  F(Result, ncclWaitSignal,                                                                        \
    (int count, AwaitedSignals* awaited, CommHandle comm, StreamHandle stream))                    \
  F(Result, ncclWinGetUserPtr, (CommHandle comm, WindowHandle window, void** pointer))             \
  F(Result, ncclGetLsaDevicePointer,                                                               \
    (WindowHandle window, std::size_t offset, int peer, void** pointer))                           \
  F(Result, ncclGetPeerDevicePointer,                                                              \
    (WindowHandle window, std::size_t offset, int peer, void** pointer))                           \
  F(void, ncclResetDebugInitInternal, ())

/// Those that Plait refuses, as F(result, name). They look at no argument, so they need no
/// parameters: on all targets of Plait the caller cleans its arguments up.
#define PLAIT_NCCL_REFUSED_FUNCTIONS(F)                                                            \
  F(Result, ncclGetLsaMultimemDevicePointer) F(Result, ncclGetMultimemDevicePointer)               \
  F(Result, ncclGetCftDeviceLeInfo)                                                                \
  F(Result, ncclGetMultimemDeviceLeInfo) F(Result, ncclGetPeerDeviceLeInfo)                        \
  F(Result, ncclDevCommCreate) F(Result, ncclDevCommDestroy)                                       \
  F(Result, ncclGinBarrierCreateRequirement) F(Result, ncclGinInboxA2ACreateRequirement)           \
  F(Result, ncclGinOutboxCreateRequirement) F(Result, ncclLLA2ACreateRequirement)                  \
  F(Result, ncclLsaBarrierCreateRequirement) F(int, ncclLLA2ACalcSlots) F(Team, ncclTeamCft)       \
  F(Team, ncclTeamCftMultimem) F(Team, ncclTeamLsa) F(Team, ncclTeamRail)                          \
  F(Team, ncclTeamWorld) F(int, ncclTeamRankToLsa) F(int, ncclTeamRankToWorld)                     \
  F(Result, ncclCommGetUniqueId) F(Result, ncclCommGrow) F(Result, ncclCommMemStats)               \
  F(Result, ncclCommResume) F(Result, ncclCommSuspend) F(Result, ncclParamBind)                    \
  F(void, ncclParamDumpAll) F(Result, ncclParamGet) F(Result, ncclParamGetAllParameterKeys)        \
  F(Result, ncclParamGetI16) F(Result, ncclParamGetI32) F(Result, ncclParamGetI64)                 \
  F(Result, ncclParamGetI8) F(Result, ncclParamGetParameter) F(Result, ncclParamGetStr)            \
  F(Result, ncclParamGetU16) F(Result, ncclParamGetU32) F(Result, ncclParamGetU64)                 \
  F(Result, ncclParamGetU8) F(Result, ncclSetEncryption)

// clang-format on

#ifndef PLAIT_NCCL_TABLES_ONLY  // in a file that includes nccl.h
namespace plait::nccl {
extern "C" {
#define PLAIT_DECLARE(RESULT, NAME, PARAMETERS) RESULT NAME PARAMETERS;
PLAIT_NCCL_FUNCTIONS(PLAIT_DECLARE)
PLAIT_NCCL_LATER_FUNCTIONS(PLAIT_DECLARE)
#undef PLAIT_DECLARE
#define PLAIT_DECLARE(NAME, COLLECTIVE, OP, ROOT)     \
  Result nccl##NAME(PLAIT_NCCL_PARAMETERS(OP, ROOT)); \
  Result nccl##NAME##Config(PLAIT_NCCL_PARAMETERS(OP, ROOT), const CallConfig* config);
PLAIT_NCCL_COLLECTIVES(PLAIT_DECLARE)
#undef PLAIT_DECLARE
#define PLAIT_DECLARE(RESULT, NAME) RESULT NAME();
PLAIT_NCCL_REFUSED_FUNCTIONS(PLAIT_DECLARE)
#undef PLAIT_DECLARE
}
}  // namespace plait::nccl
#endif
