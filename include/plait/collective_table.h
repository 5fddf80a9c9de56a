/* The table of the collectives: what each takes, and which buffers it has. The library, the
 * bindings and the tests make what they have for each collective from it.
 *
 * Only macros, so C can read it; cmake/PlaitFortran.cmake reads the rows for Fortran. */
#ifndef PLAIT_COLLECTIVE_TABLE_H /* SPDX-License-Identifier: Apache-2.0 */
#define PLAIT_COLLECTIVE_TABLE_H

/* `ROW(name, NAME, op, root, send, recv)` for each collective, in the order of plait::Collective:
 *
 * name, NAME  as C++ and C write it: plait::Collective::name, plait_name, PLAIT_NAME.
 * op          op, or no_op if it does not reduce.
 * root        root, or no_root if all ranks are alike.
 * send, recv  The buffer: `block`, of `count` elements; `blocks`, one block per rank; `root_block`
 *             and `root_blocks`, on the root alone.
 *
 * `OTHER(name, NAME, send, recv)` for what plait::Collective names besides: its functions take
 * other arguments. `none` is no buffer. */
#define PLAIT_COLLECTIVES(ROW, OTHER)                                    \
  ROW(all_reduce, ALL_REDUCE, op, no_root, block, block)                 \
  ROW(reduce_scatter, REDUCE_SCATTER, op, no_root, blocks, block)        \
  ROW(all_gather, ALL_GATHER, no_op, no_root, block, blocks)             \
  ROW(broadcast, BROADCAST, no_op, root, root_block, block)              \
  ROW(reduce, REDUCE, op, root, block, root_block)                       \
  ROW(all_to_all, ALL_TO_ALL, no_op, no_root, blocks, blocks)            \
  ROW(gather, GATHER, no_op, root, block, root_blocks)                   \
  ROW(scatter, SCATTER, no_op, root, root_blocks, block)                 \
  OTHER(send_recv, SEND_RECV, block, block) /* both ends of a message */ \
  OTHER(barrier, BARRIER, none, none)                                    \
  ROW(scan, SCAN, op, no_root, block, block)                             \
  ROW(exscan, EXSCAN, op, no_root, block, block)

/* For ROW: the text in parentheses if the row has op, or root, and else nothing. The macro that is
 * passed as ROW writes PLAIT_IF_##OP(text), where OP is its parameter. */
#define PLAIT_IF_op(...) __VA_ARGS__
#define PLAIT_IF_no_op(...)
#define PLAIT_IF_root(...) __VA_ARGS__
#define PLAIT_IF_no_root(...)

/* To pass as OTHER, if that is not wanted. */
#define PLAIT_NO_OTHER(NAME, ENUMERATOR, SEND, RECV)

#endif
