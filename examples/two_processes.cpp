// Two processes that meet by a unique id, without a launcher: build-host/bin/two_processes
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <plait/plait.hpp>

int main() try {
  // Any means will do to hand the id's bytes to the other ranks. Here it is fork: the child has a
  // copy of them.
  const plait::UniqueId id = plait::UniqueId::create();
  const pid_t child = ::fork();
  const int rank = child == 0 ? 1 : 0;

  plait::Communicator comm = plait::make_communicator(id, rank, 2);
  plait::Buffer<float> x = comm.allocate<float>(1);
  const float mine = float(rank + 1);
  float sum = 0;
  comm.copy(x.data(), &mine, sizeof mine);
  comm.all_reduce(x.span(), x.span(), plait::ReduceOp::sum);
  comm.copy(&sum, x.data(), sizeof sum);
  comm.synchronize();
  std::printf("rank %d: %g\n", rank, sum);

  int status = 0;
  if (rank == 0) ::waitpid(child, &status, 0);
  return sum == 3 ? status : 1;
} catch (const plait::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
