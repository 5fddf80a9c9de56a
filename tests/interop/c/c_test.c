/* Every function of Plait's C interface, from C99: mpirun -n N c_test. */
#include "c_test.h"

void check_words(const char* file, int line, const char* const* words, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i)
    if (strstr(plait_last_error(), words[i]) == NULL) report(file, line, words[i]);
  if (strchr(plait_last_error(), '\n') != NULL) report(file, line, "more than one line");
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(plait_last_error()[0] == '\0');
  create();
  if (failures == 0) {
    collectives();
    uneven_reductions();
    messages();
    types();
    operations();
    uneven_blocks();
    halos();
    refused_messages();
    completion();
    symmetric_memory_and_groups();
    attached_memory();
    questions();
    bad_handles();
    null_pointers();
    bad_numbers();
    structure_sizes();
    groups_with_errors();
    options_of_calls();
    deadline();
    threads();
    aborting();
    destroying();
    refusing();
    collectives(); /* none of it has harmed the communicator */
    messages();
  }
  OK(plait_comm_destroy(comm));
  OK(plait_stream_destroy(stream)); /* streams outlive communicators */
  INVALID(plait_stream_destroy(stream), "plait_stream_destroy", "destroyed");
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: %s\n", ranks, failures == 0 ? "passed" : "FAILED");
  after_the_end_of_mpi();
  return failures != 0;
}
