// The 97 functions of NCCL 2.32, as tables and as declarations. tests/interop/nccl compares the
// tables with nccl.h and with the names that the library exports.
#pragma once
#include "interop/nccl/abi.hpp"

// A row is a function: F(result, name, parameters).
// clang-format off

/// The functions of 2.28.9 that Plait has.
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
  F(Result, ncclMemAlloc, (void** pointer, std::size_t bytes))                                     \
  F(Result, ncclMemFree, (void* pointer))                                                          \
  F(Result, ncclRedOpCreatePreMulSum,                                                              \
    (OpNumber* op, void* scalar, TypeNumber type, ResidenceNumber residence, CommHandle comm))     \
  F(Result, ncclRedOpDestroy, (OpNumber op, CommHandle comm))                                      \
  F(Result, ncclReduce,                                                                            \
    (const void* send, void* recv, std::size_t count, TypeNumber type, OpNumber op, int root,      \
     CommHandle comm, StreamHandle stream))                                                        \
  F(Result, ncclBcast,                                                                             \
    (void* buffer, std::size_t count, TypeNumber type, int root, CommHandle comm,                  \
     StreamHandle stream))                                                                         \
  F(Result, ncclBroadcast,                                                                         \
    (const void* send, void* recv, std::size_t count, TypeNumber type, int root, CommHandle comm,  \
     StreamHandle stream))                                                                         \
  F(Result, ncclAllReduce,                                                                         \
    (const void* send, void* recv, std::size_t count, TypeNumber type, OpNumber op,                \
     CommHandle comm, StreamHandle stream))                                                        \
  F(Result, ncclReduceScatter,                                                                     \
    (const void* send, void* recv, std::size_t count, TypeNumber type, OpNumber op,                \
     CommHandle comm, StreamHandle stream))                                                        \
  F(Result, ncclAllGather,                                                                         \
    (const void* send, void* recv, std::size_t count, TypeNumber type, CommHandle comm,            \
     StreamHandle stream))                                                                         \
  F(Result, ncclAlltoAll,                                                                          \
    (const void* send, void* recv, std::size_t count, TypeNumber type, CommHandle comm,            \
     StreamHandle stream))                                                                         \
  F(Result, ncclGather,                                                                            \
    (const void* send, void* recv, std::size_t count, TypeNumber type, int root, CommHandle comm,  \
     StreamHandle stream))                                                                         \
  F(Result, ncclScatter,                                                                           \
    (const void* send, void* recv, std::size_t count, TypeNumber type, int root, CommHandle comm,  \
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
  F(Result, ncclAllReduceConfig,                                                                   \
    (const void* send, void* recv, std::size_t count, TypeNumber type, OpNumber op,                \
     CommHandle comm, StreamHandle stream, const CallConfig* config))                              \
  F(Result, ncclBroadcastConfig,                                                                   \
    (const void* send, void* recv, std::size_t count, TypeNumber type, int root, CommHandle comm,  \
     StreamHandle stream, const CallConfig* config))                                               \
  F(Result, ncclReduceConfig,                                                                      \
    (const void* send, void* recv, std::size_t count, TypeNumber type, OpNumber op, int root,      \
     CommHandle comm, StreamHandle stream, const CallConfig* config))                              \
  F(Result, ncclAllGatherConfig,                                                                   \
    (const void* send, void* recv, std::size_t count, TypeNumber type, CommHandle comm,            \
     StreamHandle stream, const CallConfig* config))                                               \
  F(Result, ncclReduceScatterConfig,                                                               \
    (const void* send, void* recv, std::size_t count, TypeNumber type, OpNumber op,                \
     CommHandle comm, StreamHandle stream, const CallConfig* config))                              \
  F(Result, ncclAlltoAllConfig,                                                                    \
    (const void* send, void* recv, std::size_t count, TypeNumber type, CommHandle comm,            \
     StreamHandle stream, const CallConfig* config))                                               \
  F(Result, ncclGatherConfig,                                                                      \
    (const void* send, void* recv, std::size_t count, TypeNumber type, int root, CommHandle comm,  \
     StreamHandle stream, const CallConfig* config))                                               \
  F(Result, ncclScatterConfig,                                                                     \
    (const void* send, void* recv, std::size_t count, TypeNumber type, int root, CommHandle comm,  \
     StreamHandle stream, const CallConfig* config))                                               \
  F(Result, ncclCommQueryProperties, (CommHandle comm, Properties* properties))                    \
  F(void, ncclResetDebugInitInternal, ())

/// Those that Plait refuses, as F(result, name). They look at no argument, so they need no
/// parameters: on all targets of Plait the caller cleans its arguments up.
#define PLAIT_NCCL_REFUSED_FUNCTIONS(F)                                                            \
  F(Result, ncclCommWindowRegister)                                                                \
  F(Result, ncclCommWindowDeregister)                                                              \
  F(Result, ncclWinGetUserPtr)                                                                     \
  F(Result, ncclGetLsaDevicePointer)                                                               \
  F(Result, ncclGetLsaMultimemDevicePointer)                                                       \
  F(Result, ncclGetMultimemDevicePointer)                                                          \
  F(Result, ncclGetPeerDevicePointer)                                                              \
  F(Result, ncclGetCftDeviceLeInfo)                                                                \
  F(Result, ncclGetMultimemDeviceLeInfo)                                                           \
  F(Result, ncclGetPeerDeviceLeInfo)                                                               \
  F(Result, ncclDevCommCreate)                                                                     \
  F(Result, ncclDevCommDestroy)                                                                    \
  F(Result, ncclGinBarrierCreateRequirement)                                                       \
  F(Result, ncclGinInboxA2ACreateRequirement)                                                      \
  F(Result, ncclGinOutboxCreateRequirement)                                                        \
  F(Result, ncclLLA2ACreateRequirement)                                                            \
  F(Result, ncclLsaBarrierCreateRequirement)                                                       \
  F(int, ncclLLA2ACalcSlots)                                                                       \
  F(Team, ncclTeamCft)                                                                             \
  F(Team, ncclTeamCftMultimem)                                                                     \
  F(Team, ncclTeamLsa)                                                                             \
  F(Team, ncclTeamRail)                                                                            \
  F(Team, ncclTeamWorld)                                                                           \
  F(int, ncclTeamRankToLsa)                                                                        \
  F(int, ncclTeamRankToWorld)                                                                      \
  F(Result, ncclPutSignal)                                                                         \
  F(Result, ncclSignal)                                                                            \
  F(Result, ncclWaitSignal)                                                                        \
  F(Result, ncclCommGetUniqueId)                                                                   \
  F(Result, ncclCommGrow)                                                                          \
  F(Result, ncclCommMemStats)                                                                      \
  F(Result, ncclCommResume)                                                                        \
  F(Result, ncclCommSuspend)                                                                       \
  F(Result, ncclParamBind)                                                                         \
  F(void, ncclParamDumpAll)                                                                        \
  F(Result, ncclParamGet)                                                                          \
  F(Result, ncclParamGetAllParameterKeys)                                                          \
  F(Result, ncclParamGetI16)                                                                       \
  F(Result, ncclParamGetI32)                                                                       \
  F(Result, ncclParamGetI64)                                                                       \
  F(Result, ncclParamGetI8)                                                                        \
  F(Result, ncclParamGetParameter)                                                                 \
  F(Result, ncclParamGetStr)                                                                       \
  F(Result, ncclParamGetU16)                                                                       \
  F(Result, ncclParamGetU32)                                                                       \
  F(Result, ncclParamGetU64)                                                                       \
  F(Result, ncclParamGetU8)                                                                        \
  F(Result, ncclSetEncryption)

// clang-format on

#ifndef PLAIT_NCCL_TABLES_ONLY  // in a file that includes nccl.h
namespace plait::nccl {
extern "C" {
#define PLAIT_DECLARE(RESULT, NAME, PARAMETERS) RESULT NAME PARAMETERS;
PLAIT_NCCL_FUNCTIONS(PLAIT_DECLARE)
PLAIT_NCCL_LATER_FUNCTIONS(PLAIT_DECLARE)
#undef PLAIT_DECLARE
#define PLAIT_DECLARE(RESULT, NAME) RESULT NAME();
PLAIT_NCCL_REFUSED_FUNCTIONS(PLAIT_DECLARE)
#undef PLAIT_DECLARE
}
}  // namespace plait::nccl
#endif
