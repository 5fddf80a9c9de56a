// Small thread_local variables that every call reads.
#pragma once
#include <cstdlib>  // for __GLIBC__

/// `PLAIT_THREAD_WORD T* name = nullptr;` at namespace scope declares a thread_local variable that
/// takes one load to read. In a shared library, a plain thread_local variable takes a call of the
/// dynamic linker per read (11 instructions, 14 times per barrier). The loader sets the memory of
/// these variables aside for all threads. If a program loads the library later, all of them come
/// from a small reserve (libplait has about 300 bytes of them), so large variables belong behind a
/// pointer.
///
/// With PLAIT_DYNAMIC_TLS they are plain. CUDA's static runtime, a part of the library, has 4 KB of
/// thread_local variables, and the reserve would have to hold them all: a program such as Python
/// could not load the library at all.
#if defined(__GLIBC__) && !defined(PLAIT_DYNAMIC_TLS)
#define PLAIT_THREAD_WORD [[gnu::tls_model("initial-exec")]] constinit thread_local
#else
#define PLAIT_THREAD_WORD constinit thread_local
#endif
