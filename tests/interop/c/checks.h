/* Shared by the tests of the C interface: this rank's number, its failures, and the data it
 * sends. */
#ifndef PLAIT_TESTS_INTEROP_C_CHECKS_H
#define PLAIT_TESTS_INTEROP_C_CHECKS_H
#include <stdio.h>

#include "plait/plait.h"

extern int rank, ranks, failures;
extern plait_comm comm;
extern plait_stream_t stream;

void report(const char* file, int line, const char* what);
#define CHECK(condition) ((condition) ? (void)0 : report(__FILE__, __LINE__, #condition))
#define OK(call) CHECK((call) == PLAIT_SUCCESS)

/* The element at `i` of block `block` of rank `of`: small integers, whose sums are exact. */
double value(int of, int block, size_t i);
double sum(int block, size_t i);
/* Of the first ranks only. */
double sum_of_first(int terms, int block, size_t i);

#endif
