// The floating-point environment in which Plait computes on the CPU, whatever the caller's is.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif
#include <cstdint>

namespace plait {

/// Gives this thread the default environment for the life of the object: rounding to nearest even,
/// subnormal numbers kept, no exception traps. The destructor restores the caller's environment and
/// its exception flags, so exceptions raised meanwhile are not seen outside.
///
/// Programs linked with -ffast-math flush subnormals, solvers switch the rounding mode, Fortran
/// programs trap exceptions. Ranks that compute or choose in different environments would get
/// different results.
///
/// Takes about 10 ns: it switches MXCSR alone on x86-64, where only `long double` uses the x87
/// unit, and FPCR with FPSR on aarch64. The compiler does not know these registers, so the
/// computation must be behind a call that it does not inline.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept {
#if defined(__x86_64__)
    caller_ = _mm_getcsr();
    _mm_setcsr(0x1f80);
#elif defined(__aarch64__)
    const std::uint64_t defaults = 0;
    asm volatile("mrs %0, fpcr" : "=r"(control_)::"memory");
    asm volatile("mrs %0, fpsr" : "=r"(status_)::"memory");
    asm volatile("msr fpcr, %0" ::"r"(defaults) : "memory");
#else
    std::fegetenv(&caller_);
    std::fesetenv(FE_DFL_ENV);
#endif
  }
  ~FloatEnvironment() {
#if defined(__x86_64__)
    _mm_setcsr(caller_);
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" ::"r"(control_) : "memory");
    asm volatile("msr fpsr, %0" ::"r"(status_) : "memory");
#else
    std::fesetenv(&caller_);
#endif
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  std::uint32_t caller_;
#elif defined(__aarch64__)
  std::uint64_t control_, status_;
#else
  std::fenv_t caller_;
#endif
};

}  // namespace plait
