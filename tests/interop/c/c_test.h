/* Shared by the files of c_test: the macros for calls that are refused, and the topics that main
 * calls. */
#ifndef PLAIT_TESTS_INTEROP_C_C_TEST_H
#define PLAIT_TESTS_INTEROP_C_C_TEST_H
#include <string.h>

#include "checks.h"
#include "plait/plait_mpi.h"

enum { count = 1003 }; /* elements per block */

/* The call must be refused with this status, and its sentence contain the words. */
#define REFUSED(status, call, ...)                                        \
  do {                                                                    \
    const char* const words[] = {__VA_ARGS__};                            \
    CHECK((call) == (status));                                            \
    check_words(__FILE__, __LINE__, words, sizeof words / sizeof *words); \
  } while (0)
#define INVALID(call, ...) REFUSED(PLAIT_ERROR_INVALID_ARGUMENT, call, __VA_ARGS__)
void check_words(const char* file, int line, const char* const* words, size_t count);

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
void symmetric_memory_and_groups(void);
void attached_memory(void);
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
