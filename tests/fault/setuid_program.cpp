// Prints the environment that a program reads of its caller's. setuid_test.sh runs it as a plain
// program and as a setuid one.
#include <sys/auxv.h>

#include <cstdio>

#include "plait/plait.hpp"

int main() {
  std::printf("secure %lu\n", getauxval(AT_SECURE));
  try {
    auto bootstraps = plait::make_thread_bootstraps(1);
    plait::Communicator comm = plait::Communicator::create(std::move(bootstraps[0]),
                                                           {.backend = plait::BackendKind::host});
    comm.barrier();
    comm.synchronize();
  } catch (const plait::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("no error\n");
}
