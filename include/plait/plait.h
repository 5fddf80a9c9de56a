/* Plait's C interface, for C99, C++ and every language that calls C. It does not need MPI's header;
 * plait_mpi.h has the functions that do.
 *
 * communicator.hpp and group.hpp say what each call does, which shapes its buffers have and what
 * all ranks must pass alike; docs/c.md is the guide. Only the following is particular to C:
 *
 * Errors. A function returns PLAIT_SUCCESS or the kind of error, and `plait_last_error` describes
 * it in one sentence. Nothing is thrown, and results are written only on success. Errors include a
 * null pointer where one is needed, an unknown number for an enum, a structure of unknown size and
 * a handle that was destroyed: these concern this rank alone, and nothing is enqueued. Inside a
 * group, the group's end fails too.
 *
 * Handles. A handle is a number that is never used again: once its object is destroyed it is
 * refused. A stream is no handle but the device's own: on GPUs it can't be checked; on the host a
 * destroyed one is refused.
 *
 * Ownership. The caller that makes a communicator, a buffer or a stream destroys it. A communicator
 * takes its buffers along; streams stay. Pointers to structures, texts and results are used only
 * during the call, pointers to elements until the stream has passed the call.
 *
 * Threads. One thread at a time uses a communicator and its buffers. Any thread may at any time
 * call `plait_async_error`, `plait_abort` and `plait_progress_of`; destroying waits until these
 * have returned. Different threads may use different communicators at the same time. Over MPI
 * (libplait-mpi) these call MPI on the calling thread: making, splitting, duplicating and
 * destroying a communicator, `plait_buffer_allocate`, `plait_reserve`, and with PLAIT_CHECK=1 every
 * collective. So MPI's thread level limits them: with less than MPI_THREAD_MULTIPLE, which Plait
 * asks for if it initialises MPI, only one thread may be in them at a time. No other call uses MPI.
 *
 * Processes. All of these belong to the process that made them. In a child made by fork their
 * functions return PLAIT_ERROR_INVALID_ARGUMENT, except for `plait_comm_rank` and
 * `plait_comm_size`; destroying them does nothing and succeeds.
 *
 * Structures begin with their size in bytes, so that later versions can append members: initialise
 * them with PLAIT_..._INIT. A member that an earlier version lacks has its default. */
#ifndef PLAIT_PLAIT_H /* SPDX-License-Identifier: Apache-2.0 */
#define PLAIT_PLAIT_H

#include "plait/plait_types.h"
#include "plait/version.hpp" /* only macros, so C can read it */

#ifdef __cplusplus
extern "C" {
#endif

/* --- errors and version ----------------------------------------------------------------------- */

/** This thread's latest error in one sentence; empty if there was none. A call that succeeds leaves
 * it unchanged. Valid until this thread's next error. Never null. */
const char* plait_last_error(void);
/** For interfaces on top of this library, in any language: makes `sentence`, the reason why such an
 * interface refused a call, this thread's latest error, and makes the end of an open group fail.
 * Returns PLAIT_ERROR_INVALID_ARGUMENT. */
plait_status plait_refuse(const char* sentence);
/** "success", "invalid_argument", ...; "invalid" for a number that is no status. Static text. */
const char* plait_status_name(plait_status status);
/** Version of the running library: 10000 major + 100 minor + patch. PLAIT_VERSION_NUMBER is that of
 * the header. */
int plait_version(void);
#define PLAIT_VERSION_NUMBER \
  (PLAIT_VERSION_MAJOR * 10000 + PLAIT_VERSION_MINOR * 100 + PLAIT_VERSION_PATCH)

/** Bytes of one element. */
plait_status plait_size_of(plait_data_type type, size_t* bytes);

/* --- communicators ---------------------------------------------------------------------------- */

/** One rank per process that a launcher has started together: plait::make_world_bootstrap says
 * which launchers, and docs/launchers.md by which variables. A process without a launcher is
 * alone. If libplait-mpi is loaded, one rank per process of MPI_COMM_WORLD, except under torchrun
 * and a plain srun if the program has not initialised MPI. Over MPI, this initialises MPI if the
 * program has not, and MPI is finalised when the process ends, also after a mismatch or
 * an abort, but not after a lost rank or a timeout, because finalising would then wait without
 * end. Collective. `config`: NULL for the defaults. */
plait_status plait_comm_create_world(const plait_config* config, plait_comm* comm);

/** A new id, at whose address this process listens from now on. Hand its bytes to all ranks. Local.
 */
plait_status plait_unique_id_create(plait_unique_id* id);
/** A communicator of `size` ranks that have the same `id`; this one is `rank`. Rank 0 must be in
 * the process that created the id, or in a child of it. An id serves one communicator. Collective.
 * `config`: NULL for the defaults. */
plait_status plait_comm_create_with_id(const plait_unique_id* id, int rank, int size,
                                       const plait_config* config, plait_comm* comm);
/** Ranks that pass the same `color` form a communicator, ordered by `key`, then by rank. `*part` is
 * NULL for a negative colour. Collective. The parts are independent, but an abort of `comm` aborts
 * them too. */
plait_status plait_comm_split(plait_comm comm, int color, int key, plait_comm* part);
/** The same ranks once more. Calls of the two communicators on different streams do not wait for
 * each other. Collective. */
plait_status plait_comm_duplicate(plait_comm comm, plait_comm* copy);
/** Frees the communicator and its buffers. Collective. All its calls must have been synchronised.
 * Within a group that has its calls, this warns that they are never enqueued, and makes the end
 * fail. */
plait_status plait_comm_destroy(plait_comm comm);

plait_status plait_comm_rank(plait_comm comm, int* rank);
plait_status plait_comm_size(plait_comm comm, int* size);
plait_status plait_comm_backend(plait_comm comm, plait_backend* backend);

/** Texts are written like by snprintf: at most `capacity` bytes including the final zero, and
 * `*length` is the length of the whole text without the zero. A text that does not fit is no error.
 * `text` may be NULL if `capacity` is 0; `length` may be NULL.
 *
 * This text: "rank 1 of 4: cuda device 1, NVIDIA H200 (sm_90)". */
plait_status plait_comm_describe(plait_comm comm, char* text, size_t capacity, size_t* length);

/* --- memory and streams ----------------------------------------------------------------------- */

/** Commits all scratch memory now, so that no later call waits on the host until all ranks have
 * made it. Collective. All ranks fail if one runs out of memory, or if a message has one end before
 * this call and one after it. See Communicator::reserve. */
plait_status plait_reserve(plait_comm comm);

/** Symmetric memory: `bytes` zeroed bytes on every rank, reachable by all peers of its node.
 * Collective. All ranks fail if the sizes differ or if one rank runs out. */
plait_status plait_buffer_allocate(plait_comm comm, size_t bytes, plait_buffer* buffer);
/** Local; waits for this rank's device. A buffer of `plait_buffer_attach` is only unmapped. */
plait_status plait_buffer_free(plait_buffer buffer);
/** Makes memory of the program symmetric: `bytes` bytes from `pointer`, a multiple of 16, on. They
 * may differ between ranks. Collective. It stays the caller's, who frees it after
 * `plait_buffer_detach`. See Communicator::attach. */
plait_status plait_buffer_attach(plait_comm comm, void* pointer, size_t bytes,
                                 plait_buffer* buffer);
/** Collective. Then no rank has the memory mapped, and the handle is gone. */
plait_status plait_buffer_detach(plait_buffer buffer);
/** This rank's part of the buffer: device memory, or host memory on the host target. */
plait_status plait_buffer_pointer(plait_buffer buffer, void** pointer);
/** Rank `rank`'s part, as this rank's kernels address it; on the host, as any of its code does.
 * Local. PLAIT_ERROR_UNSUPPORTED if it can't be loaded and stored. See CallsOnWindows::peer. */
plait_status plait_buffer_peer(plait_buffer buffer, int rank, void** pointer);
plait_status plait_buffer_bytes(plait_buffer buffer, size_t* bytes);
/** `*result` is 1 if the `bytes` bytes from `pointer` on lie in symmetric memory of `comm`, else 0.
 * Local. */
plait_status plait_is_symmetric(plait_comm comm, const void* pointer, size_t bytes, int* result);

/** A stream on the communicator's device. It may be used with every communicator on that device,
 * and outlives this communicator. */
plait_status plait_stream_create(plait_comm comm, plait_stream_t* stream);
/** Only for streams from `plait_stream_create`. Any thread may call it, once no thread uses the
 * stream any more. */
plait_status plait_stream_destroy(plait_stream_t stream);

/** An event on the communicator's device, for all streams there: a `cudaEvent_t` or `hipEvent_t`
 * without times, which CUDA and HIP take too; on the host a number that only Plait knows. It
 * outlives this communicator. One thread at a time uses an event. */
plait_status plait_event_create(plait_comm comm, plait_event_t* event);
/** Only for events from `plait_event_create`. */
plait_status plait_event_destroy(plait_event_t event);
/** The event is now the point behind all that was enqueued in `stream`, a stream of the device of
 * `comm`. Not within a group, whose calls are not enqueued yet. The event may be the program's own
 * `cudaEvent_t` or `hipEvent_t` here and below; on the host a destroyed one is refused. */
plait_status plait_event_record(plait_comm comm, plait_event_t event, plait_stream_t stream);
/** Work that is enqueued in `stream` from now on waits for the event's last point. The host does
 * not wait. Not within a group. */
plait_status plait_event_wait(plait_comm comm, plait_event_t event, plait_stream_t stream);
/** `*done` is 1 if the stream has come to the event's last point, or there is none, else 0. Never
 * waits. An event tells nothing of errors: see `plait_test` and `plait_async_error`. */
plait_status plait_event_test(plait_comm comm, plait_event_t event, int* done);
/** Waits on the host until the stream has come to the event's last point. */
plait_status plait_event_synchronize(plait_comm comm, plait_event_t event);

/** Copies `bytes` bytes between any two places in this rank's device memory and host memory.
 * Asynchronous, ordered on `stream`. Fails with PLAIT_ERROR_INVALID_ARGUMENT for more bytes than a
 * symmetric buffer has, and within a group that has calls of this communicator. */
plait_status plait_copy(plait_comm comm, void* to, const void* from, size_t bytes,
                        plait_stream_t stream);

/* --- collectives ------------------------------------------------------------------------------ */

/* All are collective, asynchronous, ordered on `stream`, and may be captured in a graph. With the
 * option `blocking` they return when the result is there. A block is `count` elements, and n the
 * number of ranks. `options`: NULL for the defaults. If only the root has a buffer, the other ranks
 * may pass NULL. */

/** Reduces one block of every rank element by element, for every rank. In place: `send` = `recv`.
 */
plait_status plait_all_reduce(plait_comm comm, const void* send, void* recv, size_t count,
                              plait_data_type type, plait_reduce_op op, plait_stream_t stream,
                              const plait_call_options* options);
/** Reduces n blocks of every rank; rank r receives block r. `send`: n blocks; `recv`: one. In
 * place: `recv` is block r of `send`. */
plait_status plait_reduce_scatter(plait_comm comm, const void* send, void* recv, size_t count,
                                  plait_data_type type, plait_reduce_op op, plait_stream_t stream,
                                  const plait_call_options* options);
/** Every rank receives the blocks of all ranks, in rank order. `send`: one block; `recv`: n. In
 * place: `send` is block r of `recv`. */
plait_status plait_all_gather(plait_comm comm, const void* send, void* recv, size_t count,
                              plait_data_type type, plait_stream_t stream,
                              const plait_call_options* options);
/** Every rank, including the root, receives the root's block. `send`: only on the root. In place:
 * `send` = `recv`. */
plait_status plait_broadcast(plait_comm comm, const void* send, void* recv, size_t count,
                             plait_data_type type, int root, plait_stream_t stream,
                             const plait_call_options* options);
/** Reduces one block of every rank, for the root. `recv`: only on the root. In place: `send` =
 * `recv`. */
plait_status plait_reduce(plait_comm comm, const void* send, void* recv, size_t count,
                          plait_data_type type, plait_reduce_op op, int root, plait_stream_t stream,
                          const plait_call_options* options);
/** Rank r receives block r of every rank. `send` and `recv`: n blocks each. In place: `send` =
 * `recv`. */
plait_status plait_all_to_all(plait_comm comm, const void* send, void* recv, size_t count,
                              plait_data_type type, plait_stream_t stream,
                              const plait_call_options* options);
/** The root receives the blocks of all ranks, in rank order. `send`: one block; `recv`: n, only on
 * the root. In place: the root's `send` is its block of `recv`. In symmetric memory all ranks then
 * pass the offset of that block, the root's, instead of their own block's. */
plait_status plait_gather(plait_comm comm, const void* send, void* recv, size_t count,
                          plait_data_type type, int root, plait_stream_t stream,
                          const plait_call_options* options);
/** Rank r receives block r of the root. `send`: n blocks, only on the root; `recv`: one. In place:
 * the root's `recv` is its block of `send`. In symmetric memory all ranks then pass the offset of
 * that block, the root's, instead of their own block's. */
plait_status plait_scatter(plait_comm comm, const void* send, void* recv, size_t count,
                           plait_data_type type, int root, plait_stream_t stream,
                           const plait_call_options* options);
/** Rank r receives the reduction of the blocks of ranks 0 to r, element by element. Any `op` but
 * PLAIT_AVG. In place: `send` = `recv`. */
plait_status plait_scan(plait_comm comm, const void* send, void* recv, size_t count,
                        plait_data_type type, plait_reduce_op op, plait_stream_t stream,
                        const plait_call_options* options);
/** Rank r receives the reduction of the blocks of ranks 0 to r - 1. `recv` of rank 0 is unchanged.
 * Any `op` but PLAIT_AVG. In place: `send` = `recv`. */
plait_status plait_exscan(plait_comm comm, const void* send, void* recv, size_t count,
                          plait_data_type type, plait_reduce_op op, plait_stream_t stream,
                          const plait_call_options* options);
/** No rank's stream passes this point before all ranks' streams have reached it. One that blocks:
 * `plait_enqueue` of PLAIT_BARRIER with the option. */
plait_status plait_barrier(plait_comm comm, plait_stream_t stream);
/** `plait_refuse` for a call that other ranks make, too: it takes its number, like a call that the
 * communicator refuses itself, so they are told the reason, and no later call of this rank is taken
 * for it. `collective`: the call, or PLAIT_SEND_RECV for messages that have elements, to the ranks
 * in `to` and from those in `from`; if both are NULL, to and from all ranks. */
plait_status plait_refuse_call(plait_comm comm, plait_collective collective, const int* to,
                               size_t sends, const int* from, size_t receives,
                               const char* sentence);

/** Any of these, for programs that learn at run time which one. PLAIT_SEND_RECV sends to the next
 * rank and receives from the previous one. */
plait_status plait_enqueue(plait_comm comm, const plait_call* call, const void* send, void* recv,
                           plait_stream_t stream, const plait_call_options* options);

/* --- reductions by a function of the program -------------------------------------------------- */

/* As the collectives of the same names, with elements of `op->element_bytes` bytes. All ranks pass
 * the same size and an equal function. Fail with PLAIT_ERROR_UNSUPPORTED on GPUs, which need a
 * compiled kernel (docs/adding-an-algorithm.md), and in a group. */

plait_status plait_all_reduce_by(plait_comm comm, const void* send, void* recv, size_t count,
                                 const plait_host_operation* op, plait_stream_t stream);
plait_status plait_reduce_scatter_by(plait_comm comm, const void* send, void* recv, size_t count,
                                     const plait_host_operation* op, plait_stream_t stream);
plait_status plait_reduce_by(plait_comm comm, const void* send, void* recv, size_t count,
                             const plait_host_operation* op, int root, plait_stream_t stream);
plait_status plait_scan_by(plait_comm comm, const void* send, void* recv, size_t count,
                           const plait_host_operation* op, plait_stream_t stream);
plait_status plait_exscan_by(plait_comm comm, const void* send, void* recv, size_t count,
                             const plait_host_operation* op, plait_stream_t stream);

/** Calls that one rank makes alone; see Communicator::put, get, signal and wait_signal. `buffer` is
 * one of `comm`; `signals` of plait_put is 0 or 1. */
plait_status plait_put(plait_comm comm, plait_buffer buffer, int peer, size_t offset,
                       const void* source, size_t bytes, int signals, plait_stream_t stream,
                       const plait_call_options* options);
plait_status plait_get(plait_comm comm, plait_buffer buffer, int peer, size_t offset, void* target,
                       size_t bytes, plait_stream_t stream, const plait_call_options* options);
plait_status plait_signal(plait_comm comm, int peer, plait_stream_t stream,
                          const plait_call_options* options);
plait_status plait_wait_signal(plait_comm comm, int peer, size_t signals, plait_stream_t stream,
                               const plait_call_options* options);

/* --- messages between two ranks --------------------------------------------------------------- */

/* The i-th message that rank a sends to rank b is the i-th that b receives from a. Both ranks pass
 * the same count, type and options. A message of 0 elements is neither sent nor received. A message
 * may wait on its stream until the peer has reached it. So two ranks that send to each other use
 * `plait_send_recv`, or put both calls in a group, whose messages all proceed at once. Otherwise as
 * collectives. */

/** Sends `count` elements to rank `to`. A message to the own rank needs its `plait_recv` in the
 * same group. */
plait_status plait_send(plait_comm comm, const void* data, size_t count, plait_data_type type,
                        int to, plait_stream_t stream, const plait_call_options* options);
/** Receives `count` elements from rank `from`. */
plait_status plait_recv(plait_comm comm, void* data, size_t count, plait_data_type type, int from,
                        plait_stream_t stream, const plait_call_options* options);
/** Both at once. The peers and counts may differ; the buffers are disjoint. If `recv` lies in
 * symmetric memory, at the same offset on both ends of each message, the option `symmetric` lets
 * messages go straight there. Both ends pass the option. A rank that receives nothing, or less than
 * it sends, still passes a `recv` with room for as much as it sends. */
plait_status plait_send_recv(plait_comm comm, const void* send, size_t send_count, int to,
                             void* recv, size_t recv_count, int from, plait_data_type type,
                             plait_stream_t stream, const plait_call_options* options);
/** A message from every rank to every rank, including itself. Called by all ranks, even those with
 * nothing to send or receive. The four arrays have one entry per rank. Entry r says how many
 * elements this rank sends to rank r, or receives from it, and where they begin in the buffer, in
 * elements. Rank a sends b as many elements as b receives from a. The buffers are disjoint. The
 * arrays are used only during the call. */
plait_status plait_all_to_all_v(plait_comm comm, const void* send, const size_t* send_counts,
                                const size_t* send_displacements, void* recv,
                                const size_t* recv_counts, const size_t* recv_displacements,
                                plait_data_type type, plait_stream_t stream,
                                const plait_call_options* options);

/* The next ones but plait_reduce_scatter_v are messages, too. As in `plait_all_to_all_v`, counts
 * and displacements are in elements, an array of them has one entry per rank or peer, and they are
 * used only during the call. Ranks must agree on each count, also if it is 0. A block that is
 * written overlaps no other block. */

/** Every rank receives the blocks of all ranks. Rank r sends `count` elements, which is
 * `recv_counts[r]`. All ranks pass the same counts; displacements may differ. In place: `send` is
 * this rank's block of `recv`. */
plait_status plait_all_gather_v(plait_comm comm, const void* send, size_t count, void* recv,
                                const size_t* recv_counts, const size_t* recv_displacements,
                                plait_data_type type, plait_stream_t stream,
                                const plait_call_options* options);
/** The root receives the blocks of all ranks, `count` elements from each. `recv`, `recv_counts` and
 * `recv_displacements`: only on the root. In place: the root's `send` is its block of `recv`. */
plait_status plait_gather_v(plait_comm comm, const void* send, size_t count, void* recv,
                            const size_t* recv_counts, const size_t* recv_displacements,
                            plait_data_type type, int root, plait_stream_t stream,
                            const plait_call_options* options);
/** Rank r receives block r of the root, `count` elements. `send`, `send_counts` and
 * `send_displacements`: only on the root. In place: the root's `recv` is its block of `send`. */
plait_status plait_scatter_v(plait_comm comm, const void* send, const size_t* send_counts,
                             const size_t* send_displacements, void* recv, size_t count,
                             plait_data_type type, int root, plait_stream_t stream,
                             const plait_call_options* options);
/** Rank r receives the reduction of block r of all ranks, `counts[r]` elements. The blocks lie one
 * behind the other in `send`, in the order of their ranks. All ranks pass the same counts. In
 * place: `recv` is this rank's block of `send`. No messages: it is a plait_reduce_scatter if all
 * counts are equal and no algorithm is named. Otherwise it is one plait_reduce per block that has
 * elements, all of them or none, so errors name that call, and options are for it. */
plait_status plait_reduce_scatter_v(plait_comm comm, const void* send, const size_t* counts,
                                    void* recv, plait_data_type type, plait_reduce_op op,
                                    plait_stream_t stream, const plait_call_options* options);
/** A message to each of the `sends` ranks in `send_peers`, and from each of the `receives` ranks in
 * `recv_peers`: the exchange of halos. Called by the ranks that have neighbours. A peer may occur
 * several times, may be this rank, and may be PLAIT_PROC_NULL, which is passed over. The i-th
 * message to rank b is the i-th that b receives from this rank. So name directions in one order in
 * both lists: with peers to the left and to the right in `send_peers`, `recv_peers` has the right
 * one, from which data comes in the first direction, and then the left one. */
plait_status plait_neighbor_all_to_all_v(plait_comm comm, const void* send, size_t sends,
                                         const int* send_peers, const size_t* send_counts,
                                         const size_t* send_displacements, void* recv,
                                         size_t receives, const int* recv_peers,
                                         const size_t* recv_counts,
                                         const size_t* recv_displacements, plait_data_type type,
                                         plait_stream_t stream, const plait_call_options* options);

/* --- groups ----------------------------------------------------------------------------------- */

/** Between these, this thread's calls, on any communicators, are only collected; the end enqueues
 * them together. Groups nest. If a communicator refuses a call, the outermost end reports it and
 * enqueues nothing of the group. */
plait_status plait_group_start(void);
plait_status plait_group_end(void);

/* --- the end of calls, and what became of them ------------------------------------------------ */

/** Waits until `stream` is empty. Fails with the error that broke the communicator, for instance
 * because a rank did not come. A difference between the ranks' calls may be found only by a later
 * wait: a tight loop of waits compares calls in every sixteenth wait, a monitor every 50 ms. */
plait_status plait_synchronize(plait_comm comm, plait_stream_t stream);
/** `*done` is 1 if `stream` is empty, so `plait_synchronize` would return at once; else 0. Fails
 * with what that fails with, as soon as the stream is empty, so a loop that polls ends. Never
 * waits, except for some tenths of a second after a deadline. */
plait_status plait_test(plait_comm comm, plait_stream_t stream, int* done);
/** Waits until at least one of the `count` streams is empty. `*index` is its place in `streams`,
 * the lowest if several are. A stream without work is empty: leave out those that were returned.
 * Fails as `plait_test`, and without a stream. */
plait_status plait_wait_any(plait_comm comm, const plait_stream_t* streams, size_t count,
                            size_t* index);
/** `*status` is the error that broke the communicator, or PLAIT_SUCCESS. If there is an error,
 * `plait_last_error` has its sentence. Compares the ranks' calls first. Does not wait, except for
 * some tenths of a second after a deadline. */
plait_status plait_async_error(plait_comm comm, plait_status* status);
/** Ends all calls under way on all ranks. `plait_synchronize` and later calls fail with
 * PLAIT_ERROR_ABORTED, naming this rank and `reason` (NULL: none). Local. Not for signal handlers.
 */
plait_status plait_abort(plait_comm comm, const char* reason);
/** Local; works also while kernels run or hang. All 0 with PLAIT_PROGRESS=0. */
plait_status plait_progress_of(plait_comm comm, plait_progress* progress);
plait_status plait_statistics_of(plait_comm comm, plait_statistics* statistics);

/** Name of the algorithm that a call would take. Local. A text, see `plait_comm_describe`. */
plait_status plait_chosen(plait_comm comm, const plait_call* call,
                          const plait_call_options* options, char* text, size_t capacity,
                          size_t* length);
/** Which algorithm a call would take, in which launch shape and by which rule, and why not the
 * others: several lines. */
plait_status plait_explain(plait_comm comm, const plait_call* call,
                           const plait_call_options* options, char* text, size_t capacity,
                           size_t* length);

#ifdef __cplusplus
}
#endif

#endif
