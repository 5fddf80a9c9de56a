// Flash at every depth of its pipeline and with both kinds of copies. Each is a kernel family of
// its own, so that it has the shared memory and the registers that it needs, and no more.
#pragma once
#include "algorithms/all_reduce/flash/kernel.hpp"

#define PLAIT_FLASH_DEPTH(family, copies, depth)         \
  namespace plait::family {                              \
  using Types = TypeList<bf16>;                          \
  using flash::Args;                                     \
  template <class T>                                     \
  struct Kernel : flash::AllReduce<T, copies, depth> {}; \
  }
PLAIT_FLASH_DEPTH(flash_own1, flash::OwnCopies, 1)
PLAIT_FLASH_DEPTH(flash_own2, flash::OwnCopies, 2)
PLAIT_FLASH_DEPTH(flash_own3, flash::OwnCopies, 3)
PLAIT_FLASH_DEPTH(flash_own4, flash::OwnCopies, 4)
PLAIT_FLASH_DEPTH(flash_bulk2, flash::BulkCopies, 2)
PLAIT_FLASH_DEPTH(flash_bulk3, flash::BulkCopies, 3)
PLAIT_FLASH_DEPTH(flash_bulk4, flash::BulkCopies, 4)
#undef PLAIT_FLASH_DEPTH
