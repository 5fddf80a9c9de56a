// The C headers are C++, too, before anything of Plait's own: the macros initialise, the functions
// have C's linkage.
#include "plait/plait_mpi.h"

namespace {
[[maybe_unused]] const plait_config config = PLAIT_CONFIG_INIT;
[[maybe_unused]] const plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
[[maybe_unused]] const plait_call call = PLAIT_CALL_INIT;
[[maybe_unused]] const plait_progress progress = PLAIT_PROGRESS_INIT;
[[maybe_unused]] const plait_statistics statistics = PLAIT_STATISTICS_INIT;
}  // namespace

// A second declaration with another linkage would not compile.
extern "C" plait_status plait_comm_rank(plait_comm comm, int* rank);
