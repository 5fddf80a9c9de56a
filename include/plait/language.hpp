// Says so, in one sentence, where a program is compiled for an older C++ than the headers are
// written in. Each of them includes it.
#pragma once

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error \
    "Plait's headers need C++20: compile with -std=c++20, or in CMake link plait::plait, which asks for it"
#include "plait/needs/c++20"  // there is no such file: the compiler stops, instead of adding hundreds of errors
#endif
