/* The numbers and structures of Plait's C interface. Include plait.h, which has its rules. */
#ifndef PLAIT_PLAIT_TYPES_H /* SPDX-License-Identifier: Apache-2.0 */
#define PLAIT_PLAIT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/* Makes any int a value of the enums below, so that the library can refuse meaningless ones.
 * Without it a C++ program could not even pass such a value. */
#define PLAIT_OF_INT : int
#else
#define PLAIT_OF_INT
#endif

/** The kind of error: plait::ErrorCode plus one, and one for all other errors.
 * docs/troubleshooting.md says what to do. */
typedef enum plait_status PLAIT_OF_INT {
  PLAIT_SUCCESS = 0,
  /** The call itself is wrong. Nothing was enqueued. */
  PLAIT_ERROR_INVALID_ARGUMENT = 1,
  /** A valid call that this build, device or algorithm can't serve. Nothing was enqueued. */
  PLAIT_ERROR_UNSUPPORTED = 2,
  /** Ranks disagree. On all ranks that still have the communicator when this is found. */
  PLAIT_ERROR_MISMATCH = 3,
  /** Two devices can't reach each other's memory. On all ranks. */
  PLAIT_ERROR_NO_PEER_ACCESS = 4,
  /** On all ranks of a collective call, even if only one rank ran out. */
  PLAIT_ERROR_OUT_OF_MEMORY = 5,
  /** A peer did not arrive within the deadline. The communicator is broken on all ranks. */
  PLAIT_ERROR_TIMEOUT = 6,
  /** A rank has aborted the communicator. */
  PLAIT_ERROR_ABORTED = 7,
  /** A rank's process has ended, or has destroyed its communicator too early. The communicator is
   * broken. */
  PLAIT_ERROR_RANK_LOST = 8,
  /** A CUDA, HIP or system call failed. */
  PLAIT_ERROR_BACKEND = 9,
  /** MPI or the exchange between processes failed. */
  PLAIT_ERROR_BOOTSTRAP = 10,
  /** Any other error, for instance if the host has no memory for a few bytes. */
  PLAIT_ERROR_INTERNAL = 255
} plait_status;

/** Element types: plait::DataType. */
typedef enum plait_data_type PLAIT_OF_INT {
  PLAIT_I8 = 0,
  PLAIT_U8 = 1,
  PLAIT_I32 = 2,
  PLAIT_U32 = 3,
  PLAIT_I64 = 4,
  PLAIT_U64 = 5,
  PLAIT_F16 = 6,
  PLAIT_BF16 = 7,
  PLAIT_F8E4M3 = 8,
  PLAIT_F8E5M2 = 9,
  PLAIT_F32 = 10,
  PLAIT_F64 = 11,
  PLAIT_BOOL = 12, /**< a byte; zero is false */
  PLAIT_I16 = 13,
  PLAIT_U16 = 14,
  PLAIT_COMPLEX_F32 = 15, /**< a real part, then an imaginary one */
  PLAIT_COMPLEX_F64 = 16,
  PLAIT_F32_I32 = 17, /**< a value, then its index, as a C structure of both: MPI_FLOAT_INT */
  PLAIT_F64_I32 = 18, /**< MPI_DOUBLE_INT */
  PLAIT_I32_I32 = 19, /**< MPI_2INT */
  PLAIT_I64_I32 = 20, /**< MPI_LONG_INT */
  PLAIT_DATA_TYPE_IS_INT = 0x7fffffff /**< no type: lets any int be passed, and refused */
} plait_data_type;

/** Reduction operations: plait::ReduceOp. */
typedef enum plait_reduce_op PLAIT_OF_INT {
  PLAIT_SUM = 0,
  PLAIT_PROD = 1,
  PLAIT_MIN = 2,
  PLAIT_MAX = 3,
  PLAIT_AVG = 4,
  PLAIT_PREMUL_SUM = 5, /**< `plait_call_options.scale` times each element, summed */
  PLAIT_BAND = 6,       /**< on the bits of integers */
  PLAIT_BOR = 7,
  PLAIT_BXOR = 8,
  PLAIT_LAND = 9, /**< of integers and PLAIT_BOOL: 1 or 0 */
  PLAIT_LOR = 10,
  PLAIT_LXOR = 11,
  PLAIT_MINLOC = 12, /**< the pair with the least value, and of these with the least index */
  PLAIT_MAXLOC = 13,
  PLAIT_REDUCE_OP_IS_INT = 0x7fffffff /**< none */
} plait_reduce_op;

/** The call that a `plait_call` describes: plait::Collective. */
typedef enum plait_collective PLAIT_OF_INT {
  PLAIT_ALL_REDUCE = 0,
  PLAIT_REDUCE_SCATTER = 1,
  PLAIT_ALL_GATHER = 2,
  PLAIT_BROADCAST = 3,
  PLAIT_REDUCE = 4,
  PLAIT_ALL_TO_ALL = 5,
  PLAIT_GATHER = 6,
  PLAIT_SCATTER = 7,
  PLAIT_SEND_RECV = 8, /**< a message between two ranks */
  PLAIT_BARRIER = 9,
  PLAIT_SCAN = 10,
  PLAIT_EXSCAN = 11,
  PLAIT_COLLECTIVE_IS_INT = 0x7fffffff /**< none */
} plait_collective;

/** Which target a communicator runs on: plait::BackendKind. */
typedef enum plait_backend PLAIT_OF_INT {
  /** PLAIT_BACKEND in the environment, else a GPU target if every rank has its own device, else the
   * host. */
  PLAIT_BACKEND_CHOSEN = -1,
  PLAIT_BACKEND_HOST = 0,
  PLAIT_BACKEND_CUDA = 1,
  PLAIT_BACKEND_HIP = 2,
  PLAIT_BACKEND_IS_INT = 0x7fffffff /**< none */
} plait_backend;

/** A communicator. NULL is none. */
typedef struct plait_comm_handle* plait_comm;
/** Symmetric memory of a communicator. NULL is none. */
typedef struct plait_buffer_handle* plait_buffer;
/** Where a call is ordered: a `cudaStream_t`, a `hipStream_t`, or a stream from
 * `plait_stream_create`. NULL is the default stream: on GPUs the device's, for all threads and
 * communicators of the process; on the host the calling thread's. Not `cudaStreamPerThread` or
 * `hipStreamPerThread`. */
typedef void* plait_stream_t;
/** A point in a stream: a `cudaEvent_t`, a `hipEvent_t`, or an event from `plait_event_create`. */
typedef void* plait_event_t;

/** How to make a communicator. Equal on all ranks, except for `device`. */
typedef struct plait_config {
  size_t size;           /**< sizeof(plait_config) */
  plait_backend backend; /**< default: PLAIT_BACKEND_CHOSEN */
  /** -1: the device of this thread's latest communicator, else by the rank's index on its node. */
  int device;
  /** Limit of a wait for a peer. 0: no limit; -1: PLAIT_TIMEOUT in the environment, else 600. */
  double timeout_seconds;
  /** The most memory that algorithms may use on one rank, in bytes. 0: PLAIT_SCRATCH_BYTES in the
   * environment, else the library's default. */
  size_t scratch_bytes;
  /** Not 0: reductions of floats give bits that depend on the values, the number of ranks, the type
   * and the operation alone. 2: in a binary tree, see CommunicatorOptions::reproducible_tree; else
   * in the order of the ranks, see CommunicatorOptions::reproducible. */
  int reproducible;
} plait_config;
#define PLAIT_CONFIG_INIT \
  { sizeof(plait_config), PLAIT_BACKEND_CHOSEN, -1, -1, 0, 0 }

/** Wishes for one call. Equal on all ranks, except for `blocking`. */
typedef struct plait_call_options {
  size_t size;           /**< sizeof(plait_call_options) */
  const char* algorithm; /**< name of an algorithm or a policy; NULL or "": the library chooses */
  double scale;          /**< factor of PLAIT_PREMUL_SUM; default 1 */
  unsigned blocks;       /**< blocks of the launch; 0: the algorithm's choice */
  unsigned threads;      /**< threads per block; 0: the algorithm's choice */
  int symmetric;         /**< only for `plait_send_recv`, which explains it; default 0 */
  int unused;            /**< padding in earlier versions, whose programs do not set it */
  /** Not 0: the call returns when the result is there, as with `plait_synchronize` after it, and
   * fails with what that fails with. Not in a group, and not on a stream that is being captured.
   * Default 0. */
  int blocking;
} plait_call_options;
#define PLAIT_CALL_OPTIONS_INIT \
  { sizeof(plait_call_options), NULL, 1, 0, 0, 0, 0, 0 }

/** A call as data, for `plait_enqueue`, `plait_chosen` and `plait_explain`. Members that the
 * collective does not have are ignored. */
typedef struct plait_call {
  size_t size; /**< sizeof(plait_call) */
  plait_collective collective;
  plait_data_type type;
  plait_reduce_op op;
  int root;
  size_t count; /**< elements of a block: what one rank contributes, or receives */
  /** Not 0: in symmetric memory, at the same offset on all ranks. `plait_enqueue` ignores it and
   * finds out itself. */
  int symmetric;
  /** Not 0: `symmetric`, and one buffer lies within the other. Likewise. */
  int in_place;
} plait_call;
#define PLAIT_CALL_INIT \
  { sizeof(plait_call), PLAIT_ALL_REDUCE, PLAIT_F32, PLAIT_SUM, 0, 0, 0, 0 }

/** What a rank has done so far: plait::Statistics. */
typedef struct plait_statistics {
  size_t size;    /**< sizeof(plait_statistics), set by the caller */
  uint64_t calls; /**< calls with work to do; both ends of a send_recv are one call */
  uint64_t launches, groups, batched;
  /** Launches that serve several messages, and the messages in them, by where the kernel finds the
   * descriptions of the messages. */
  uint64_t launches_in_arguments, items_in_arguments;
  uint64_t launches_in_fifo, items_in_fifo;
  uint64_t launches_persistent, items_persistent;
  uint64_t fifo_bytes, fifo_bytes_in_use, fifo_waits;
  /** Memory that algorithms may use, and the committed part of it. */
  uint64_t scratch_bytes, scratch_bytes_committed;
} plait_statistics;
#define PLAIT_STATISTICS_INIT \
  { sizeof(plait_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** How far the kernels of a rank have come: the sums of plait::Progress. */
typedef struct plait_progress {
  size_t size;                 /**< sizeof(plait_progress), set by the caller */
  uint64_t blocks;             /**< up to the last block that has started */
  uint64_t started, completed; /**< launches, summed over the blocks; equal if nothing runs */
} plait_progress;
#define PLAIT_PROGRESS_INIT \
  { sizeof(plait_progress), 0, 0, 0 }

/** Names a group of ranks that have nothing in common yet: plait::UniqueId. */
typedef struct plait_unique_id {
  unsigned char bytes[128];
} plait_unique_id;

#ifdef __cplusplus
extern "C" {
#endif
/** inout[i] = in[i] op inout[i], for `count` elements; in[i] belongs to a lower rank than inout[i].
 * The stream's thread calls it, or a thread that waits for the stream. It must not call Plait, nor
 * leave by an exception or longjmp. plait/host_operation.hpp says more. */
typedef void (*plait_host_function)(const void* in, void* inout, size_t count, void* context);
#ifdef __cplusplus
}
#endif

/** An associative operation, for the host target only: plait::HostOperation. It need not commute:
 * terms are combined in rank order. The function and what `context` points to must live until the
 * stream has passed the call, and for a captured call as long as its graph may run. */
typedef struct plait_host_operation {
  size_t size; /**< sizeof(plait_host_operation) */
  plait_host_function function;
  size_t element_bytes; /**< of one element; a multiple of `alignment` */
  /** Of elements: a power of two, at most 64; default 1. The buffers must have it. From 8 on
   * elements travel fastest. */
  size_t alignment;
  void* context; /**< passed to each call of the function */
} plait_host_operation;
#define PLAIT_HOST_OPERATION_INIT \
  { sizeof(plait_host_operation), NULL, 0, 1, NULL }

/** No rank, as the peer of a message: that end of it does nothing, whatever its count and buffer.
 */
#define PLAIT_PROC_NULL (-2)

#undef PLAIT_OF_INT

#endif
