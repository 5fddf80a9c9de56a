// Prints the environment that a program reads of its caller's. setuid_test.sh runs it as a plain
// program and as a setuid one.
#include <sys/auxv.h>

#include <cstdio>

#include "plait/plait.hpp"

int main() {
  std::printf("secure %lu\n", getauxval(AT_SECURE));
  std::fflush(stdout);  // before the log
  try {
    plait::Communicator comm =
        plait::make_world_communicator({.backend = plait::BackendKind::host});
    plait::make_world_bootstrap();
    comm.barrier();
    comm.synchronize();
  } catch (const plait::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("no error\n");
}
