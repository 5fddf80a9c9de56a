// A program of MPI's whose rank 1 meets with a fault in its tenth call: pmpi_faults
// killed|stopped|none fatal|return. With `return`, the others tell which error they got.
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

namespace {

/// A rank that was stopped is killed in the end, so that mpirun ends, too.
void meet(std::string_view fault) {
  if (fault == "killed") std::raise(SIGKILL);
  if (fork() == 0) {
    sleep(8);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  std::raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) return 2;
  const std::string_view fault = argv[1];
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (std::string_view(argv[2]) == "return")
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int status = MPI_SUCCESS;
  for (int call = 0, sum = 0; call < 20 && status == MPI_SUCCESS; ++call) {
    if (call == 10 && rank == 1 && fault != "none") meet(fault);
    status = MPI_Allreduce(&call, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (status == MPI_SUCCESS) return MPI_Finalize();
  int error_class = MPI_SUCCESS, length = 0;
  char text[MPI_MAX_ERROR_STRING] = {};
  MPI_Error_class(status, &error_class);
  MPI_Error_string(status, text, &length);
  std::printf("rank %d: class %s: %s\n", rank,
              error_class == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "another one", text);
  std::fflush(stdout);
  _exit(0);  // MPI_Finalize would wait for the rank that is lost
}
