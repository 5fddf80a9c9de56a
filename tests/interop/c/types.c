/* Pairs of a value and an index as structures, the size of each type, and which operations it has.
 * The zoo has each type with each operation. */
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
      report(__FILE__, __LINE__, "a wrong element by " #OP " of " #TYPE);              \
      break;                                                                           \
    }                                                                                  \
  } while (0)

static void pairs(void) {
  LOCATE(struct f32_i32, PLAIT_F32_I32, PLAIT_MINLOC, 1);
  LOCATE(struct f64_i32, PLAIT_F64_I32, PLAIT_MAXLOC, -1);
  LOCATE(struct i32_i32, PLAIT_I32_I32, PLAIT_MINLOC, 1);
  LOCATE(struct i64_i32, PLAIT_I64_I32, PLAIT_MAXLOC, -1);
}

/* Each type's size, and each type with each operation, in each way to reduce: it works, or is
 * refused with the sentence. The letters are those of types: integers, floats, truths, complex
 * numbers, pairs. */
static void fitting(void) {
  static const char letters[] = "iiiiiiffffffbiiccpppp";
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 2, 1, 1, 4, 8, 1, 2, 2, 8, 16, 8, 16, 8, 16};
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
  for (type = 0; type <= PLAIT_I64_I32; ++type) {
    size_t bytes = 0;
    OK(plait_size_of((plait_data_type)type, &bytes));
    CHECK(bytes == sizes[type]);
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
  }
  OK(plait_synchronize(comm, stream));
}

void types(void) {
  pairs();
  fitting();
}
