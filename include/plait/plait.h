/* Plait's C interface, for C99 and C++, and for whatever calls C. It does not need MPI's header;
 * plait_mpi.h adds what does.
 *
 * What each call does, the shapes of its buffers and what all ranks must pass alike is the C++
 * interface's, and stands in communicator.hpp and group.hpp; docs/c.md is the guide. What is
 * particular to C:
 *
 * Errors. A function returns PLAIT_SUCCESS or what kind of thing went wrong, and `plait_last_error`
 * says it in a sentence. Nothing is thrown, results are written only on success. A null pointer for
 * what is needed, an unknown number for an enum, a structure of unknown size and a handle that was
 * destroyed are errors as well: of this rank alone, and nothing is enqueued. Inside a group its end
 * fails, too.
 *
 * Handles. A handle is a number and never used again: after its end it is refused. Only a stream is
 * the device's own: on GPUs it can't be checked, on the host one that was destroyed is refused.
 *
 * Ownership. Who makes a communicator, a buffer or a stream destroys it. A communicator takes its
 * buffers along; streams stay. Pointers to structures, texts and results are used during the call
 * alone; those to elements until the stream has passed the call.
 *
 * Threads. A communicator and its buffers are used by one thread at a time, but
 * `plait_async_error`, `plait_abort` and `plait_progress_of` by any at any time; destroying waits
 * until these have returned. Different communicators may be used by different threads at once. Over
 * MPI, making, splitting, duplicating and destroying a communicator, `plait_buffer_allocate`,
 * `plait_reserve`, and with PLAIT_CHECK=1 every collective call MPI on the calling thread. So MPI's
 * thread level holds for these: with less than MPI_THREAD_MULTIPLE, which Plait asks for if it
 * initialises MPI, no two threads may be in them at once. Nothing else calls MPI.
 *
 * Processes. All of these belong to the process that made them. In a child made by fork their
 * functions return PLAIT_ERROR_INVALID_ARGUMENT, but for `plait_comm_rank` and `plait_comm_size`,
 * and destroying them does nothing and succeeds.
 *
 * Structures begin with their size in bytes, so that later versions can append to them: begin with
 * PLAIT_..._INIT. What a structure of an earlier version lacks has its default. */
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <stddef.h>
#include <stdint.h>

#include "plait/version.hpp" /* macros alone: C, too */

#ifdef __cplusplus
/* Any int is a value of the enums below, so that the library can refuse one that means nothing;
 * without this a C++ program may not even pass it. */
#define PLAIT_OF_INT : int
extern "C" {
#else
#define PLAIT_OF_INT
#endif

/* --- errors and version
 * ----------------------------------------------------------------------------------------------------------------
 */

/** What kind of thing went wrong: plait::ErrorCode plus one, and what is none of those.
 * docs/troubleshooting.md says what to do. */
typedef enum plait_status PLAIT_OF_INT {
  PLAIT_SUCCESS = 0,
  PLAIT_ERROR_INVALID_ARGUMENT = 1, /**< the call itself is wrong; nothing was enqueued */
  PLAIT_ERROR_UNSUPPORTED =
      2, /**< a valid call that this build, device or algorithm can't serve; nothing was enqueued */
  PLAIT_ERROR_MISMATCH =
      3, /**< ranks disagree; on all that have not destroyed the communicator before it is found */
  PLAIT_ERROR_NO_PEER_ACCESS = 4, /**< two devices can't reach each other's memory; on all ranks */
  PLAIT_ERROR_OUT_OF_MEMORY =
      5, /**< on all ranks of a collective call, also where only one rank ran out */
  PLAIT_ERROR_TIMEOUT =
      6, /**< a peer did not arrive within the deadline; the communicator is broken, on all ranks */
  PLAIT_ERROR_ABORTED = 7,    /**< a rank has aborted the communicator */
  PLAIT_ERROR_RANK_LOST = 8,  /**< a rank's process has ended, or it has destroyed its communicator
                                 too early; that is broken */
  PLAIT_ERROR_BACKEND = 9,    /**< a CUDA, HIP or system call failed */
  PLAIT_ERROR_BOOTSTRAP = 10, /**< MPI or the exchange between processes failed */
  PLAIT_ERROR_INTERNAL = 255  /**< none of these, for instance no host memory for a few bytes */
} plait_status;

/** This thread's last error in one sentence; empty if it had none. A call that succeeds leaves it
 * as it is. Valid until this thread's next error. Never null. */
const char* plait_last_error(void);
/** For interfaces on top of this library, in this or other languages: what such an interface
 * refuses itself becomes this thread's last error, and makes the end of an open group fail. Returns
 * PLAIT_ERROR_INVALID_ARGUMENT. */
plait_status plait_refuse(const char* sentence);
/** "success", "invalid_argument", ...; "invalid" for what is no status. Static text. */
const char* plait_status_name(plait_status status);
/** Of the library that runs: 10000 major + 100 minor + patch. PLAIT_VERSION_NUMBER is the header's.
 */
int plait_version(void);
#define PLAIT_VERSION_NUMBER \
  (PLAIT_VERSION_MAJOR * 10000 + PLAIT_VERSION_MINOR * 100 + PLAIT_VERSION_PATCH)

/* --- types
 * -----------------------------------------------------------------------------------------------------------------------------
 */

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
  PLAIT_DATA_TYPE_IS_INT =
      0x7fffffff /**< none: makes every int a value that can be passed, and refused */
} plait_data_type;

/** Reduction operations: plait::ReduceOp. */
typedef enum plait_reduce_op PLAIT_OF_INT {
  PLAIT_SUM = 0,
  PLAIT_PROD = 1,
  PLAIT_MIN = 2,
  PLAIT_MAX = 3,
  PLAIT_AVG = 4,
  PLAIT_PREMUL_SUM = 5,               /**< `plait_call_options.scale` times each element, summed */
  PLAIT_REDUCE_OP_IS_INT = 0x7fffffff /**< none */
} plait_reduce_op;

/** Which call a `plait_call` describes: plait::Collective. */
typedef enum plait_collective PLAIT_OF_INT {
  PLAIT_ALL_REDUCE = 0,
  PLAIT_REDUCE_SCATTER = 1,
  PLAIT_ALL_GATHER = 2,
  PLAIT_BROADCAST = 3,
  PLAIT_REDUCE = 4,
  PLAIT_ALL_TO_ALL = 5,
  PLAIT_GATHER = 6,
  PLAIT_SCATTER = 7,
  PLAIT_SEND_RECV = 8, /**< a message: of two ranks */
  PLAIT_BARRIER = 9,
  PLAIT_COLLECTIVE_IS_INT = 0x7fffffff /**< none */
} plait_collective;

/** Which target a communicator runs on: plait::BackendKind. */
typedef enum plait_backend PLAIT_OF_INT {
  PLAIT_BACKEND_CHOSEN = -1, /**< as PLAIT_BACKEND in the environment says, else a GPU target if
                                every rank has a device of its own */
  PLAIT_BACKEND_HOST = 0,
  PLAIT_BACKEND_CUDA = 1,
  PLAIT_BACKEND_HIP = 2,
  PLAIT_BACKEND_IS_INT = 0x7fffffff /**< none */
} plait_backend;

/** A communicator. NULL is none. */
typedef struct plait_comm_handle* plait_comm;
/** Symmetric memory of a communicator. NULL is none. */
typedef struct plait_buffer_handle* plait_buffer;
/** Where a call is ordered: a `cudaStream_t`, a `hipStream_t`, or one from `plait_stream_create`;
 * NULL is the default stream: the device's on GPUs, for all threads and communicators of the
 * process; the calling thread's on the host. Not `cudaStreamPerThread` or `hipStreamPerThread`. */
typedef void* plait_stream_t;

/** How to make a communicator. Equal on all ranks, but for `device`. */
typedef struct plait_config {
  size_t size;            /**< sizeof(plait_config) */
  plait_backend backend;  /**< PLAIT_BACKEND_CHOSEN */
  int device;             /**< -1: that of this thread's last communicator, else the local rank's */
  double timeout_seconds; /**< of waiting for a peer; 0: for ever; -1: PLAIT_TIMEOUT in the
                             environment, else 600 */
  size_t scratch_bytes; /**< the most memory of a rank for algorithms; 0: PLAIT_SCRATCH_BYTES in the
                           environment, else the default */
} plait_config;
#define PLAIT_CONFIG_INIT \
  { sizeof(plait_config), PLAIT_BACKEND_CHOSEN, -1, -1, 0 }

/** Wishes for a call. The same on all ranks. */
typedef struct plait_call_options {
  size_t size;           /**< sizeof(plait_call_options) */
  const char* algorithm; /**< its name, or a policy's; NULL or "": chosen */
  double scale;          /**< factor of PLAIT_PREMUL_SUM; 1 */
  unsigned blocks;       /**< of the launch; 0: the algorithm's own choice */
  unsigned threads;      /**< a block; 0: the algorithm's own choice */
  int symmetric;         /**< of `plait_send_recv` alone, which see; 0 */
} plait_call_options;
#define PLAIT_CALL_OPTIONS_INIT \
  { sizeof(plait_call_options), NULL, 1, 0, 0, 0 }

/** A call as data, for `plait_enqueue`, `plait_chosen` and `plait_explain`. What a collective does
 * not have is ignored. */
typedef struct plait_call {
  size_t size; /**< sizeof(plait_call) */
  plait_collective collective;
  plait_data_type type;
  plait_reduce_op op;
  int root;
  size_t count;  /**< elements of a block: what one rank has of its own, or receives */
  int symmetric; /**< not 0: in symmetric memory, at the same offset on all ranks. `plait_enqueue`
                    finds out by itself */
  int in_place;  /**< not 0: and one buffer lies within the other. Likewise */
} plait_call;
#define PLAIT_CALL_INIT \
  { sizeof(plait_call), PLAIT_ALL_REDUCE, PLAIT_F32, PLAIT_SUM, 0, 0, 0, 0 }

/** What a rank has done so far: plait::Statistics. */
typedef struct plait_statistics {
  size_t size;    /**< sizeof(plait_statistics), set by the caller */
  uint64_t calls; /**< that had something to do; both ends of a send_recv are one */
  uint64_t launches, groups, batched;
  uint64_t launches_in_arguments, items_in_arguments; /**< launches for several messages, and the
                                                         messages they had, by where these were */
  uint64_t launches_in_fifo, items_in_fifo;
  uint64_t launches_persistent, items_persistent;
  uint64_t fifo_bytes, fifo_bytes_in_use, fifo_waits;
  uint64_t scratch_bytes,
      scratch_bytes_committed; /**< memory that algorithms may have, and what of it is committed */
} plait_statistics;
#define PLAIT_STATISTICS_INIT \
  { sizeof(plait_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** How far the kernels of a rank have come: the sums of plait::Progress. */
typedef struct plait_progress {
  size_t size;                 /**< sizeof(plait_progress), set by the caller */
  uint64_t blocks;             /**< up to the last that has started */
  uint64_t started, completed; /**< launches, summed over the blocks; equal if nothing runs */
} plait_progress;
#define PLAIT_PROGRESS_INIT \
  { sizeof(plait_progress), 0, 0, 0 }

/** Bytes of one element. */
plait_status plait_size_of(plait_data_type type, size_t* bytes);

/* --- communicators
 * ---------------------------------------------------------------------------------------------------------------------
 */

/** One rank per process of MPI_COMM_WORLD. Collective. Initialises MPI if nobody has, and then
 * finalises it when the process ends, also after a mismatch or an abort, but not after a lost rank
 * or a timeout, where that would wait for ever: for programs that have no MPI of their own.
 * `config`: NULL for the defaults. */
plait_status plait_comm_create_world(const plait_config* config, plait_comm* comm);
/** The ranks that pass the same `color` form a communicator, ordered by `key`, then by rank.
 * `*part` is NULL for a negative colour. Collective. The parts live on their own, but an abort of
 * `comm` aborts them, too. */
plait_status plait_comm_split(plait_comm comm, int color, int key, plait_comm* part);
/** The same ranks again: calls of the two do not wait for each other, if they are on different
 * streams. Collective. */
plait_status plait_comm_duplicate(plait_comm comm, plait_comm* copy);
/** Frees its buffers, too. Collective. All calls must have been synchronised. In a group that has
 * its calls it warns of them, as they are never enqueued, and makes the end fail. */
plait_status plait_comm_destroy(plait_comm comm);

plait_status plait_comm_rank(plait_comm comm, int* rank);
plait_status plait_comm_size(plait_comm comm, int* size);
plait_status plait_comm_backend(plait_comm comm, plait_backend* backend);

/** Texts are written like by snprintf: at most `capacity` bytes with the zero at the end, and
 * `*length` is that of the whole text without the zero. A shorter place is no error. `text` may be
 * NULL if `capacity` is 0, and `length` may be NULL.
 *
 *  This one: "rank 1 of 4: cuda device 1, NVIDIA H200 (sm_90)". */
plait_status plait_comm_describe(plait_comm comm, char* text, size_t capacity, size_t* length);

/* --- memory and streams
 * ----------------------------------------------------------------------------------------------------------------
 */

/** Commits all scratch memory now, so that no later call waits on the host until all ranks have
 * made it. Collective; all ranks fail if one runs out, or if a message has one end before this call
 * and one after it. See Communicator::reserve. */
plait_status plait_reserve(plait_comm comm);

/** Symmetric memory: `bytes` zeroed bytes on every rank, reachable by all peers. Collective; all
 * ranks fail if sizes differ or one runs out. */
plait_status plait_buffer_allocate(plait_comm comm, size_t bytes, plait_buffer* buffer);
/** Local; waits for this rank's device. */
plait_status plait_buffer_free(plait_buffer buffer);
/** This rank's part: on its device, or of the host on the host target. */
plait_status plait_buffer_pointer(plait_buffer buffer, void** pointer);
plait_status plait_buffer_bytes(plait_buffer buffer, size_t* bytes);
/** `*result` is 1 if `pointer` lies, with `bytes` bytes after it, in symmetric memory of `comm`,
 * else 0. Local. */
plait_status plait_is_symmetric(plait_comm comm, const void* pointer, size_t bytes, int* result);

/** A stream on the communicator's device. It may be used with every communicator on that device,
 * and outlives this one. */
plait_status plait_stream_create(plait_comm comm, plait_stream_t* stream);
/** Of `plait_stream_create` alone; by any thread, when nobody uses the stream any more. */
plait_status plait_stream_destroy(plait_stream_t stream);

/** Copies `bytes` bytes between any two of this rank's device memory and host memory. Asynchronous,
   ordered on `stream`. Fails with PLAIT_ERROR_INVALID_ARGUMENT for more bytes than a symmetric
   buffer has, and within a group that has calls of this communicator. */
plait_status plait_copy(plait_comm comm, void* to, const void* from, size_t bytes,
                        plait_stream_t stream);

/* --- collectives
 * -----------------------------------------------------------------------------------------------------------------------
 */

/* All are collective, asynchronous, ordered on `stream` and may be captured in a graph. A block is
 * `count` elements, and n the number of ranks. `options`: NULL for the defaults. Where only the
 * root has a buffer, the other ranks may pass NULL. */

/** Reduces a block of every rank element by element, for every rank. In place: `send` = `recv`. */
plait_status plait_all_reduce(plait_comm comm, const void* send, void* recv, size_t count,
                              plait_data_type type, plait_reduce_op op, plait_stream_t stream,
                              const plait_call_options* options);
/** Reduces n blocks of every rank; rank r receives block r. `send`: n blocks; `recv`: one. In
 * place: `recv` is block r of `send`. */
plait_status plait_reduce_scatter(plait_comm comm, const void* send, void* recv, size_t count,
                                  plait_data_type type, plait_reduce_op op, plait_stream_t stream,
                                  const plait_call_options* options);
/** Every rank receives the blocks of all, in their order. `send`: one block; `recv`: n. In place:
 * `send` is block r of `recv`. */
plait_status plait_all_gather(plait_comm comm, const void* send, void* recv, size_t count,
                              plait_data_type type, plait_stream_t stream,
                              const plait_call_options* options);
/** Every rank, the root too, receives the root's block. `send`: of the root alone. In place: `send`
 * = `recv`. */
plait_status plait_broadcast(plait_comm comm, const void* send, void* recv, size_t count,
                             plait_data_type type, int root, plait_stream_t stream,
                             const plait_call_options* options);
/** Reduces a block of every rank, for the root. `recv`: of the root alone. In place: `send` =
 * `recv`. */
plait_status plait_reduce(plait_comm comm, const void* send, void* recv, size_t count,
                          plait_data_type type, plait_reduce_op op, int root, plait_stream_t stream,
                          const plait_call_options* options);
/** Rank r receives block r of every rank. `send` and `recv`: n blocks each. In place: `send` =
 * `recv`. */
plait_status plait_all_to_all(plait_comm comm, const void* send, void* recv, size_t count,
                              plait_data_type type, plait_stream_t stream,
                              const plait_call_options* options);
/** The root receives the blocks of all. `send`: one block; `recv`: n, of the root alone. In place:
 * the root's `send` is its block of `recv`; in symmetric memory all ranks then pass that `send`,
 * the root's block, and not each its own. */
plait_status plait_gather(plait_comm comm, const void* send, void* recv, size_t count,
                          plait_data_type type, int root, plait_stream_t stream,
                          const plait_call_options* options);
/** Rank r receives block r of the root. `send`: n blocks, of the root alone; `recv`: one. In place:
 * the root's `recv` is its block of `send`; in symmetric memory all ranks then pass that `recv`,
 * the root's block, and not each its own. */
plait_status plait_scatter(plait_comm comm, const void* send, void* recv, size_t count,
                           plait_data_type type, int root, plait_stream_t stream,
                           const plait_call_options* options);
/** No rank's stream passes this point before all ranks' streams have reached it. */
plait_status plait_barrier(plait_comm comm, plait_stream_t stream);
/** Any of these, for programs that learn at run time which. PLAIT_SEND_RECV sends to the next rank,
 * and receives from the one before. */
plait_status plait_enqueue(plait_comm comm, const plait_call* call, const void* send, void* recv,
                           plait_stream_t stream, const plait_call_options* options);

/* --- messages between two ranks
 * --------------------------------------------------------------------------------------------------------
 */

/* The i-th message that rank a sends to rank b is the i-th that b receives from a: both pass the
 * same count, type and options. A message of no elements is not sent, and received by nobody. A
 * message may wait on its stream until the peer has come as far: a rank that sends to one that
 * sends to it says `plait_send_recv`, or puts both calls in a group, whose messages proceed at
 * once. Otherwise as collectives. */

/** `count` elements for rank `to`. With `to` the own rank, in a group with the `plait_recv`. */
plait_status plait_send(plait_comm comm, const void* data, size_t count, plait_data_type type,
                        int to, plait_stream_t stream, const plait_call_options* options);
/** `count` elements from rank `from`. */
plait_status plait_recv(plait_comm comm, void* data, size_t count, plait_data_type type, int from,
                        plait_stream_t stream, const plait_call_options* options);
/** Both at once; the peers and counts may differ, the buffers are disjoint. Where `recv` lies in
 * symmetric memory, at the same offset on both ends of each message, the option `symmetric` lets
 * messages go straight there; both ends pass it, and also who receives less than it sends, or
 * nothing, passes a `recv` with room there for what it sends. */
plait_status plait_send_recv(plait_comm comm, const void* send, size_t send_count, int to,
                             void* recv, size_t recv_count, int from, plait_data_type type,
                             plait_stream_t stream, const plait_call_options* options);
/** A message from every rank to every rank, the own one too; called by all, also with nothing to
 * send or receive. Element r of the four arrays, which have one element a rank, is how many
 * elements rank r is sent, or sends, and where they begin in the buffer, in elements. What a sends
 * to b is as long as what b receives from a. The buffers are disjoint. The arrays are used during
 * the call alone. */
plait_status plait_all_to_all_v(plait_comm comm, const void* send, const size_t* send_counts,
                                const size_t* send_displacements, void* recv,
                                const size_t* recv_counts, const size_t* recv_displacements,
                                plait_data_type type, plait_stream_t stream,
                                const plait_call_options* options);

/* --- groups
 * ----------------------------------------------------------------------------------------------------------------------------
 */

/** Between these, this thread's calls of any communicators are only collected; the end enqueues
 * them together. They nest. What a communicator finds wrong with a call, the outermost end reports;
 * then nothing of the group is enqueued. */
plait_status plait_group_start(void);
plait_status plait_group_end(void);

/* --- the end of calls, and what became of them
 * -----------------------------------------------------------------------------------------
 */

/** Waits until `stream` is empty. Fails with what broke the communicator, for instance that a rank
 * did not come. Calls that differ between ranks may be found by a later wait only: a tight loop of
 * waits compares in every sixteenth, a monitor every 50 ms. */
plait_status plait_synchronize(plait_comm comm, plait_stream_t stream);
/** `*status` is what broke the communicator, or PLAIT_SUCCESS; if it is not that,
 * `plait_last_error` has the sentence. Compares the ranks' calls first. Does not wait, except for
 * some tenths of a second after a deadline. */
plait_status plait_async_error(plait_comm comm, plait_status* status);
/** Ends all calls under way on all ranks; `plait_synchronize` and later calls fail with
 * PLAIT_ERROR_ABORTED, this rank and `reason` (NULL: none). Local; not from a signal handler. */
plait_status plait_abort(plait_comm comm, const char* reason);
/** All 0 with PLAIT_PROGRESS=0. Local; also while kernels run or hang. */
plait_status plait_progress_of(plait_comm comm, plait_progress* progress);
plait_status plait_statistics_of(plait_comm comm, plait_statistics* statistics);

/** The name of the algorithm that a call would take. Local. A text, see `plait_comm_describe`. */
plait_status plait_chosen(plait_comm comm, const plait_call* call,
                          const plait_call_options* options, char* text, size_t capacity,
                          size_t* length);
/** Which algorithm, in which launch shape, by which rule, and why not the others: several lines. */
plait_status plait_explain(plait_comm comm, const plait_call* call,
                           const plait_call_options* options, char* text, size_t capacity,
                           size_t* length);

#undef PLAIT_OF_INT
#ifdef __cplusplus
}
#endif

#endif
