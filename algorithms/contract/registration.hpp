// How what is not compiled into the library makes itself known to it: algorithms and kernels of
// programs and of plug-ins.
#pragma once
#include "plait/version.hpp"

/// Calls `add`, which registers something, if the caller was compiled for this version of Plait. If
/// not, nothing of the caller is touched, as layouts may differ: a plug-in is refused by who loads
/// it, and a program with such code can't create communicators. This function stays as it is in all
/// versions.
extern "C" void plait_register(const char* version, void (*add)());

namespace plait {

/// A static one calls `add` when the program starts, or the plug-in is loaded.
struct Registration {
  explicit Registration(void (*add)()) { plait_register(PLAIT_VERSION, add); }
};

}  // namespace plait
