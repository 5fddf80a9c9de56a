// Registration of algorithms and kernels, also those of programs and plug-ins.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "plait/version.hpp"

/// Calls `add`, which registers something, if the caller was compiled for this version of Plait.
/// Otherwise it touches nothing of the caller, because layouts may differ: the plug-in is refused
/// when it is loaded, and a program with such code can't create communicators. This function stays
/// the same in all versions.
extern "C" void plait_register(const char* version, void (*add)());

namespace plait {

/// As a static object: calls `add` when the program starts or the plug-in is loaded.
struct Registration {
  explicit Registration(void (*add)()) { plait_register(PLAIT_VERSION, add); }
};

}  // namespace plait
