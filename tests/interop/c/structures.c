/* Structures of the C interface whose size is wrong, or that of an earlier version. */
#include <stddef.h>
#include <string.h>

#include "c_test.h"

void structure_sizes(void) {
  /* Longer than any structure, so that a wrong size is the only thing wrong. */
  union {
    size_t size;
    plait_config config;
    plait_call_options options;
    plait_call call;
    plait_statistics statistics;
    plait_progress progress;
    plait_host_operation operation;
    unsigned char bytes[512];
  } any;
  plait_comm made = NULL;
  float x[2] = {1, 1};
  char text[100], number[100];
  int which;
  static const size_t known[] = {sizeof(plait_config),     sizeof(plait_call_options),
                                 sizeof(plait_call),       sizeof(plait_progress),
                                 sizeof(plait_statistics), sizeof(plait_host_operation)};
  static const char* const names[] = {"plait_config",     "plait_call_options",
                                      "plait_call",       "plait_progress",
                                      "plait_statistics", "plait_host_operation"};
  for (which = 0; which < 6; ++which) {
    int step;
    for (step = 0; step < 4; ++step) {
      const size_t wrong[] = {0, sizeof(size_t) - 1, known[which] + 1, (size_t)-1};
      memset(&any, 0, sizeof any);
      any.size = wrong[step];
      sprintf(number, "%s has size %lu, and Plait ", names[which], (unsigned long)wrong[step]);
      if (which == 0)
        INVALID(plait_comm_create_world(&any.config, &made), "plait_comm_create_world", number);
      if (which == 1)
        INVALID(plait_all_reduce(comm, x, x, 1, PLAIT_F32, PLAIT_SUM, stream, &any.options),
                "plait_all_reduce: rank", number);
      if (which == 2)
        INVALID(plait_enqueue(comm, &any.call, x, x, stream, NULL), "plait_enqueue: rank", number);
      if (which == 3) INVALID(plait_progress_of(comm, &any.progress), "plait_progress_of", number);
      if (which == 4)
        INVALID(plait_statistics_of(comm, &any.statistics), "plait_statistics_of", number);
      if (which == 5)
        INVALID(plait_all_reduce_by(comm, x, x, 1, &any.operation, stream),
                "plait_all_reduce_by: rank", number);
      sprintf(number, " knows %lu to %lu: ", (unsigned long)sizeof(size_t),
              (unsigned long)known[which]);
      CHECK(strstr(plait_last_error(), number));
    }
  }

  /* Structures of earlier versions: what is behind their end is neither read nor written. */
  memset(&any, 0xee, sizeof any);
  any.size = offsetof(plait_config, device);
  any.config.backend = PLAIT_BACKEND_HOST;
  OK(plait_comm_create_world(&any.config, &made));
  OK(plait_comm_destroy(made));
  any.size = sizeof(size_t);
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_SUM, stream, &any.options));
  any.size = offsetof(plait_call_options, scale) + 4; /* half a member is none */
  any.options.algorithm = "ring";
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_PREMUL_SUM, stream, &any.options));
  OK(plait_synchronize(comm, stream));
  CHECK(x[0] == (float)(ranks * ranks));
  any.size = offsetof(plait_call, type);
  any.call.collective = PLAIT_BROADCAST;
  OK(plait_explain(comm, &any.call, NULL, text, sizeof text, NULL));
  CHECK(strstr(text, "broadcast"));
  memset(&any, 0xee, sizeof any);
  any.size = offsetof(plait_statistics, groups);
  OK(plait_statistics_of(comm, &any.statistics));
  CHECK(any.statistics.calls != 0 && any.statistics.launches != 0 &&
        any.bytes[offsetof(plait_statistics, groups)] == 0xee);
  any.size = offsetof(plait_progress, completed);
  OK(plait_progress_of(comm, &any.progress));
  CHECK(any.progress.blocks != 0 && any.bytes[offsetof(plait_progress, completed)] == 0xee);
}
