/* The data types beside plain numbers of 32 and 64 bits, and which operations each type has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

enum { n = 300, most_ranks = 8 };

/* As the header has them: MPI_FLOAT_INT and its like. */
struct f32_i32 {
  float value;
  int32_t index;
};
struct f64_i32 {
  double value;
  int32_t index;
};
struct i32_i32 {
  int32_t value, index;
};
struct i64_i32 {
  int64_t value;
  int32_t index;
};

static void wrong_element(int line, const char* what, size_t i) {
  fprintf(stderr, "%s, element %lu\n", what, (unsigned long)i);
  report(__FILE__, line, "a wrong element");
}

/* All-reduces TERM(rank, i), of C's type T, and compares with COMBINE(a, b) over all ranks. The zoo
 * has each type with each operation. */
#define REDUCE(T, TYPE, OP, TERM, COMBINE)                             \
  do {                                                                 \
    T send[n], recv[n], a, b;                                          \
    size_t i;                                                          \
    int r;                                                             \
    ++turn;                                                            \
    for (i = 0; i < n; ++i) send[i] = (T)TERM(rank, i);                \
    OK(plait_all_reduce(comm, send, recv, n, TYPE, OP, stream, NULL)); \
    OK(plait_synchronize(comm, stream));                               \
    for (i = 0; i < n; ++i) {                                          \
      for (r = 1, a = (T)TERM(0, i); r < ranks; ++r) {                 \
        b = (T)TERM(r, i);                                             \
        a = (T)COMBINE(a, b);                                          \
      }                                                                \
      if (recv[i] == a) continue;                                      \
      wrong_element(__LINE__, #OP " of " #TYPE, i);                    \
      break;                                                           \
    }                                                                  \
  } while (0)
#define NUMBER(R, I) (100 * (value(R, 0, I) - 20)) /* of either sign, in 16 bits with 8 ranks */
#define TRUTH(R, I) (value(R, 0, I) > 20)
#define ADD(A, B) ((A) + (B))
#define MULTIPLY(A, B) ((A) * (B))
#define BITS_XOR(A, B) ((A) ^ (B))
#define ONE_OF(A, B) (!(A) != !(B))
/* Small parts, so that products are exact. */
#define COMPLEX(R, I) \
  ((double)((int)value(R, 0, I) % 5 - 2) + ((int)value(R, 1, I) % 3 - 1) * imaginary_unit)

static void small_and_complex_numbers(void) {
  /* The macro I of <complex.h> would be in the way of other names. */
  const float imaginary[2] = {0, 1};
  float _Complex imaginary_unit;
  memcpy(&imaginary_unit, imaginary, sizeof imaginary_unit);
  REDUCE(int16_t, PLAIT_I16, PLAIT_SUM, NUMBER, ADD);
  REDUCE(uint16_t, PLAIT_U16, PLAIT_BXOR, TRUTH, BITS_XOR);
  REDUCE(uint8_t, PLAIT_BOOL, PLAIT_LXOR, TRUTH, ONE_OF);
  REDUCE(float _Complex, PLAIT_COMPLEX_F32, PLAIT_PROD, COMPLEX, MULTIPLY);
  REDUCE(double _Complex, PLAIT_COMPLEX_F64, PLAIT_PROD, COMPLEX, MULTIPLY);
}

/* Pairs with many equal values. Higher ranks have lower indices, so that the first of equal pairs
 * is not the first rank's. */
#define TIED(R, I) ((int)value(R, 0, I) % 4)
#define INDEX(R, I) (1000 * (most_ranks - (R)) + (int)(I))
#define LOCATE(T, TYPE, OP, SIGN)                                                      \
  do {                                                                                 \
    T send[n], recv[n];                                                                \
    size_t i, bytes = 0;                                                               \
    int r, best;                                                                       \
    ++turn;                                                                            \
    OK(plait_size_of(TYPE, &bytes));                                                   \
    CHECK(bytes == sizeof(T));                                                         \
    for (i = 0; i < n; ++i) {                                                          \
      send[i].value = TIED(rank, i);                                                   \
      send[i].index = INDEX(rank, i);                                                  \
    }                                                                                  \
    OK(plait_all_reduce(comm, send, recv, n, TYPE, OP, stream, NULL));                 \
    OK(plait_synchronize(comm, stream));                                               \
    for (i = 0; i < n; ++i) {                                                          \
      for (r = 1, best = 0; r < ranks; ++r)                                            \
        if (SIGN * TIED(r, i) <= SIGN * TIED(best, i)) best = r;                       \
      if (recv[i].value == TIED(best, i) && recv[i].index == INDEX(best, i)) continue; \
      wrong_element(__LINE__, #OP " of " #TYPE, i);                                    \
      break;                                                                           \
    }                                                                                  \
  } while (0)

static void pairs(void) {
  struct f64_i32 mine, best = {-1, -1};
  plait_call call = PLAIT_CALL_INIT;
  LOCATE(struct f32_i32, PLAIT_F32_I32, PLAIT_MINLOC, 1);
  LOCATE(struct f64_i32, PLAIT_F64_I32, PLAIT_MAXLOC, -1);
  LOCATE(struct i32_i32, PLAIT_I32_I32, PLAIT_MINLOC, 1);
  LOCATE(struct i64_i32, PLAIT_I64_I32, PLAIT_MAXLOC, -1);

  /* Described as data. A NaN never wins over a number. */
  mine.value = rank == 0 ? (double)NAN : rank;
  mine.index = 10 * rank;
  call.type = PLAIT_F64_I32;
  call.op = PLAIT_MINLOC;
  call.count = 1;
  OK(plait_enqueue(comm, &call, &mine, &best, stream, NULL));
  OK(plait_synchronize(comm, stream));
  CHECK(ranks == 1 ? isnan(best.value) && best.index == 0 : best.value == 1 && best.index == 10);
}

/* Calls that only move elements carry all bytes of each type. */
static void moves(void) {
  static const size_t known[] = {1, 2, 2, 8, 16, 8, 16, 8, 16};
  unsigned char *mine = malloc(n * 16), *all = malloc((size_t)ranks * n * 16);
  unsigned char* last = malloc(n * 16);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  int type;
  for (type = PLAIT_BOOL; type <= PLAIT_I64_I32; ++type) {
    const size_t bytes = n * known[type - PLAIT_BOOL];
    size_t size = 0, i;
    int r, wrong = 0;
    OK(plait_size_of((plait_data_type)type, &size));
    CHECK(size == known[type - PLAIT_BOOL]);
    ++turn;
    for (i = 0; i < bytes; ++i) mine[i] = (unsigned char)(3 * value(rank, type, i));
    memset(all, 0xee, (size_t)ranks * bytes);
    memset(last, 0xee, bytes);
    OK(plait_all_gather(comm, mine, all, n, (plait_data_type)type, stream, NULL));
    OK(plait_send_recv(comm, mine, n, next, last, n, before, (plait_data_type)type, stream, NULL));
    OK(plait_synchronize(comm, stream));
    for (i = 0; i < bytes; ++i) {
      for (r = 0; r < ranks; ++r)
        wrong += all[(size_t)r * bytes + i] != (unsigned char)(3 * value(r, type, i));
      wrong += last[i] != (unsigned char)(3 * value(before, type, i));
    }
    if (wrong != 0) fprintf(stderr, "type %d: %d wrong bytes\n", type, wrong);
    CHECK(wrong == 0);
  }
  free(mine);
  free(all);
  free(last);
}

/* Each type with each operation, in each way to reduce: it works, or is refused with the sentence.
 * The letters are those of types: integers, floats, truths, complex numbers, pairs. */
static void fitting(void) {
  static const char letters[] = "iiiiiiffffffbiiccpppp";
  static const char* const names[] = {
      "i8",   "u8",          "i32",         "u32",     "i64",     "u64",     "f16",
      "bf16", "f8e4m3",      "f8e5m2",      "f32",     "f64",     "bool",    "i16",
      "u16",  "complex_f32", "complex_f64", "f32_i32", "f64_i32", "i32_i32", "i64_i32"};
  static const struct {
    const char *name, *letters, *needs;
  } operations_of[] = {{"sum", "ifc", "numbers"},
                       {"prod", "ifc", "numbers"},
                       {"min", "if", "an integer or floating-point type"},
                       {"max", "if", "an integer or floating-point type"},
                       {"avg", "ifc", "numbers"},
                       {"premul_sum", "fc", "a floating-point or complex type"},
                       {"band", "i", "an integer type"},
                       {"bor", "i", "an integer type"},
                       {"bxor", "i", "an integer type"},
                       {"land", "ib", "an integer type or bool"},
                       {"lor", "ib", "an integer type or bool"},
                       {"lxor", "ib", "an integer type or bool"},
                       {"minloc", "p", "pairs of a value and an index"},
                       {"maxloc", "p", "pairs of a value and an index"}};
  /* Zero in every type. */
  static double send[2 * most_ranks], recv[2 * most_ranks];
  int type, operation, row;
  CHECK(ranks <= most_ranks);
  CHECK(sizeof names / sizeof *names == PLAIT_I64_I32 + 1);
  CHECK(sizeof operations_of / sizeof *operations_of == PLAIT_MAXLOC + 1);
  for (type = 0; type <= PLAIT_I64_I32; ++type)
    for (operation = 0; operation <= PLAIT_MAXLOC; ++operation)
      for (row = 0; row < rows; ++row) {
        const plait_collective which = table[row].number;
        const int scan = which == PLAIT_SCAN || which == PLAIT_EXSCAN;
        char sentence[160];
        plait_status status;
        if (!table[row].op || (scan && operation == PLAIT_AVG)) continue;
        status = by_name(which, comm, send, recv, 1, (plait_data_type)type,
                         (plait_reduce_op)operation, 0, NULL);
        if (strchr(operations_of[operation].letters, letters[type])) {
          CHECK(status == PLAIT_SUCCESS);
          continue;
        }
        CHECK(status == PLAIT_ERROR_UNSUPPORTED);
        sprintf(sentence, "%s: rank %d: %s needs %s, not %s", table[row].name, rank,
                operations_of[operation].name, operations_of[operation].needs, names[type]);
        if (strcmp(plait_last_error(), sentence) != 0) report(__FILE__, __LINE__, sentence);
      }
  OK(plait_synchronize(comm, stream));
}

void types(void) {
  small_and_complex_numbers();
  pairs();
  moves();
  fitting();
}
