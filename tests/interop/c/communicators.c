/* Communicators of the C interface: each way to make one, and none after MPI. */
#include <stddef.h>
#include <string.h>

#include "c_test.h"

/* Ranks that need MPI only to hand the id around. */
static void create_with_id(void) {
  plait_unique_id id = {{0}};
  plait_config on_host = PLAIT_CONFIG_INIT;
  plait_comm other = NULL;
  float x = 1, y = 0;
  int n = -1;
  on_host.backend = PLAIT_BACKEND_HOST; /* for x and y */
  INVALID(plait_comm_create_with_id(&id, 0, 1, NULL, &other), "unique id is empty");
  INVALID(plait_comm_create_with_id(NULL, 0, 1, NULL, &other), "id is NULL");
  INVALID(plait_unique_id_create(NULL), "id is NULL");
  if (rank == 0) OK(plait_unique_id_create(&id));
  MPI_Bcast(id.bytes, sizeof id.bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  INVALID(plait_comm_create_with_id(&id, ranks, ranks, NULL, &other), "there are ");
  OK(plait_comm_create_with_id(&id, rank, ranks, &on_host, &other));
  OK(plait_comm_rank(other, &n));
  CHECK(n == rank);
  OK(plait_all_reduce(other, &x, &y, 1, PLAIT_F32, PLAIT_SUM, NULL, NULL));
  OK(plait_synchronize(other, NULL));
  CHECK(y == (float)ranks);
  OK(plait_comm_destroy(other));
}

static int is_reproducible(plait_comm of, const char* how) {
  plait_call call = PLAIT_CALL_INIT;
  char text[4000];
  OK(plait_explain(of, &call, NULL, text, sizeof text, NULL));
  const char* const line = strstr(text, "\n  reproducible: ");
  return line != NULL && strstr(line, how) != NULL;
}

void create(void) {
  plait_config config = PLAIT_CONFIG_INIT;
  plait_comm other = NULL;
  plait_backend backend;
  int n = -1;
  char text[200], part[8];
  size_t length = 0;
  config.backend = PLAIT_BACKEND_HOST;
  config.timeout_seconds = 30;
  OK(plait_comm_create(MPI_COMM_WORLD, &config, &comm));
  OK(plait_comm_rank(comm, &n));
  CHECK(n == rank);
  OK(plait_comm_size(comm, &n));
  CHECK(n == ranks);
  OK(plait_comm_backend(comm, &backend));
  CHECK(backend == PLAIT_BACKEND_HOST);
  OK(plait_comm_describe(comm, text, sizeof text, &length));
  CHECK(length == strlen(text) && strstr(text, "host device"));
  OK(plait_comm_describe(comm, part, sizeof part, &length)); /* as snprintf does */
  CHECK(strlen(part) == sizeof part - 1 && strncmp(part, text, sizeof part - 1) == 0 &&
        length == strlen(text));
  OK(plait_comm_describe(comm, NULL, 0, &length));
  CHECK(length == strlen(text));
  OK(plait_comm_describe(comm, text, sizeof text, NULL));
  OK(plait_stream_create(comm, &stream));

  OK(plait_comm_create_world(NULL, &other));
  OK(plait_comm_destroy(other));
  create_with_id();
  OK(plait_comm_create_fortran(MPI_Comm_c2f(MPI_COMM_SELF), &config, &other));
  OK(plait_comm_size(other, &n));
  CHECK(n == 1);
  OK(plait_comm_destroy(other));

  config.reproducible = 1;
  OK(plait_comm_create(MPI_COMM_WORLD, &config, &other));
  CHECK(is_reproducible(other, "in rank order") && !is_reproducible(comm, ""));
  OK(plait_comm_destroy(other));
  config.reproducible = 2;
  OK(plait_comm_create(MPI_COMM_WORLD, &config, &other));
  CHECK(is_reproducible(other, "in a tree"));
  OK(plait_comm_destroy(other));
  config.size = offsetof(plait_config, reproducible); /* an earlier version, with more behind it */
  OK(plait_comm_create(MPI_COMM_WORLD, &config, &other));
  CHECK(!is_reproducible(other, ""));
  OK(plait_comm_destroy(other));

  OK(plait_comm_duplicate(comm, &other));
  OK(plait_comm_rank(other, &n));
  CHECK(other != comm && n == rank);
  OK(plait_reserve(other));
  OK(plait_barrier(other, NULL));
  OK(plait_synchronize(other, NULL));
  OK(plait_comm_destroy(other));
  OK(plait_comm_split(comm, rank == 0 ? -1 : 1, -rank, &other)); /* all but rank 0, backwards */
  CHECK((other == NULL) == (rank == 0));
  if (other != NULL) {
    OK(plait_comm_rank(other, &n));
    CHECK(n == ranks - 1 - rank);
    OK(plait_comm_destroy(other));
  }
}

/* Asked for a communicator, MPI itself would end the program. */
void after_the_end_of_mpi(void) {
  const MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD);
  plait_comm late = NULL;
  MPI_Finalize();
  REFUSED(PLAIT_ERROR_BOOTSTRAP, plait_comm_create_fortran(world, NULL, &late),
          "plait_comm_create_fortran", "finalised");
  REFUSED(PLAIT_ERROR_BOOTSTRAP, plait_comm_create(MPI_COMM_WORLD, NULL, &late), "finalised");
  REFUSED(PLAIT_ERROR_BOOTSTRAP, plait_comm_create_world(NULL, &late), "finalised");
  CHECK(late == NULL);
}
