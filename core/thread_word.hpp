// Small thread_local variables that every call reads.
#pragma once
#include <cstdlib>  // for __GLIBC__

/// `PLAIT_THREAD_WORD T* name = nullptr;` at namespace scope: a thread_local variable that is read
/// with one load. In a shared library a plain one takes a call of the dynamic linker each time (11
/// instructions, 14 times in a barrier). The loader sets such memory aside for all threads. A
/// library that a program loads later gets all of its thread_local variables from a small reserve
/// then (libplait has some 300 bytes), so large ones belong behind a pointer.
#if defined(__GLIBC__)
#define PLAIT_THREAD_WORD [[gnu::tls_model("initial-exec")]] constinit thread_local
#else
#define PLAIT_THREAD_WORD constinit thread_local
#endif
