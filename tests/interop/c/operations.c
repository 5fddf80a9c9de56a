/* Reductions by a function of the program. */
#include <string.h>

#include "c_test.h"

/* Affine maps x -> factor x + constant, one after the other: that does not commute. The context is
 * what both are taken modulo. */
struct map {
  uint64_t factor, constant;
};

static void compose(const void* in, void* inout, size_t elements, void* context) {
  const struct map* lower = in;
  struct map* higher = inout;
  const uint64_t modulus = *(const uint64_t*)context;
  size_t i;
  for (i = 0; i < elements; ++i) {
    higher[i].constant = (higher[i].factor * lower[i].constant + higher[i].constant) % modulus;
    higher[i].factor = higher[i].factor * lower[i].factor % modulus;
  }
}

enum { modulus = 65521, most = 8 };
static struct map map_of(int of_rank, size_t i) {
  struct map map;
  map.factor = (uint64_t)of_rank + 2 + i % 5;
  map.constant = (uint64_t)of_rank * 7 + i;
  return map;
}

/* The composition of the first `terms` ranks' maps. */
static int is_composed(int terms, const struct map* got, size_t first) {
  uint64_t by = modulus;
  size_t i;
  for (i = 0; i < count; ++i) {
    struct map all = map_of(terms - 1, first + i);
    int lower;
    for (lower = terms - 2; lower >= 0; --lower) {
      const struct map map = map_of(lower, first + i);
      compose(&map, &all, 1, &by);
    }
    if (got[i].factor != all.factor || got[i].constant != all.constant) return 0;
  }
  return 1;
}
static int is_result(const struct map* got, size_t first) { return is_composed(ranks, got, first); }

/* Of the first ranks, also in place. `recv` has room for a block. */
static void scans(struct map* send, struct map* recv, const plait_host_operation* op) {
  static struct map zeros[count];
  size_t i;
  OK(plait_scan_by(comm, send, recv, count, op, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(is_composed(rank + 1, recv, 0));
  memset(recv, 0, sizeof zeros);
  OK(plait_exscan_by(comm, send, recv, count, op, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(rank == 0 ? memcmp(recv, zeros, sizeof zeros) == 0 : is_composed(rank, recv, 0));
  OK(plait_scan_by(comm, send, send, count, op, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(is_composed(rank + 1, send, 0));
  for (i = 0; i < count; ++i) send[i] = map_of(rank, i);
  OK(plait_exscan_by(comm, send, send, count, op, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(is_composed(rank == 0 ? 1 : rank, send, 0)); /* rank 0 keeps its own */
}

void operations(void) {
  static struct map send[most * count], recv[count];
  static uint64_t by = modulus;
  plait_host_operation op = PLAIT_HOST_OPERATION_INIT;
  const int root = ranks - 1;
  size_t i;
  op.function = compose;
  op.element_bytes = sizeof(struct map);
  op.alignment = sizeof(uint64_t);
  op.context = &by;
  CHECK(ranks <= most);
  for (i = 0; i < (size_t)ranks * count; ++i) send[i] = map_of(rank, i);

  OK(plait_all_reduce_by(comm, send, recv, count, &op, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(is_result(recv, 0));
  OK(plait_reduce_scatter_by(comm, send, recv, count, &op, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(is_result(recv, (size_t)rank * count));
  memset(recv, 0, sizeof recv);
  OK(plait_reduce_by(comm, send, rank == root ? recv : NULL, count, &op, root, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(rank != root || is_result(recv, 0));
  scans(send, recv, &op);

  INVALID(plait_all_reduce_by(comm, send, recv, count, NULL, stream), "plait_all_reduce_by: rank",
          "op is NULL");
  INVALID(plait_reduce_by(comm, send, recv, count, &op, ranks, stream), "reduce: rank",
          "is none of the ranks");
  INVALID(plait_scan_by(comm, send, recv, count, NULL, stream), "plait_scan_by: rank",
          "op is NULL");
  INVALID(plait_exscan_by(comm, send, NULL, count, &op, stream), "exscan: rank", "recv is null");
  op.alignment = 5;
  INVALID(plait_reduce_scatter_by(comm, send, recv, count, &op, stream), "reduce_scatter: rank",
          "alignment is 5");
  OK(plait_group_start());
  CHECK(plait_all_reduce_by(comm, send, recv, count, NULL, stream) != PLAIT_SUCCESS);
  CHECK(plait_group_end() == PLAIT_ERROR_INVALID_ARGUMENT);
}
