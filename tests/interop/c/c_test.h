/* Shared by the files of c_test: the macros for calls that are refused, the table of collectives,
 * and the topics that main calls. */
#ifndef PLAIT_TESTS_INTEROP_C_C_TEST_H
#define PLAIT_TESTS_INTEROP_C_C_TEST_H
#include <string.h>

#include "checks.h"
#include "plait/collective_table.h"
#include "plait/plait_mpi.h"

enum { count = 1003 }; /* elements per block */

/* The call must be refused with this status, and its sentence contain all three words. */
#define REFUSED(status, call, a, b, c)                                      \
  do {                                                                      \
    CHECK((call) == (status));                                              \
    CHECK(strstr(plait_last_error(), a) && strstr(plait_last_error(), b) && \
          strstr(plait_last_error(), c));                                   \
    CHECK(strchr(plait_last_error(), '\n') == NULL);                        \
  } while (0)
#define INVALID(call, a, b, c) REFUSED(PLAIT_ERROR_INVALID_ARGUMENT, call, a, b, c)

/* The rows of the table, in its order. */
enum {
#define ENTRY(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) row_##NAME,
  PLAIT_COLLECTIVES(ENTRY, PLAIT_NO_OTHER)
#undef ENTRY
      rows
};
/* The buffer that a rank sends or receives: `block` or `blocks`, `root_` on the root alone. */
enum buffer { block, blocks, root_block, root_blocks };
struct row {
  plait_collective number;
  const char* name;
  enum { no_op, op } op;
  enum buffer send, recv;
};
extern const struct row table[rows];

/* A collective by its own function. */
plait_status by_name(plait_collective which, plait_comm on, const void* send, void* recv,
                     size_t elements, plait_data_type type, plait_reduce_op operation, int root,
                     const plait_call_options* options);

void create(void); /* `comm` and `stream`, with which all others work */
void collectives(void);
void uneven_reductions(void);
void types(void);
void operations(void);
void messages(void);
void uneven_blocks(void);
void halos(void);
void refused_messages(void);
void completion(void);
void one_device(void);
void symmetric_memory_and_groups(void);
void groups_with_errors(void);
void questions(void);
void options_of_calls(void);
void bad_handles(void);
void null_pointers(void);
void bad_numbers(void);
void structure_sizes(void);
void deadline(void);
void threads(void);
void aborting(void);
void destroying(void);
void refusing(void);
void after_the_end_of_mpi(void);

#endif
