// Tells a program that is compiled for an older C++ than C++20 so, in one sentence. All headers for
// C++ include this one.
#pragma once  // SPDX-License-Identifier: Apache-2.0

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error \
    "Plait's headers need C++20: compile with -std=c++20 (CMake: link plait::plait, which adds it)"
// No such file exists: so the compiler stops here, instead of adding hundreds of errors.
#include "plait/needs/c++20"
#endif
