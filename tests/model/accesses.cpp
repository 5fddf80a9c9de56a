// The functions that -fsanitize=thread calls for each access of memory. Kernels are compiled so,
// without ThreadSanitizer itself: the explorer gets the accesses that are no words of a target, as
// of counters that one thread uses.
#include "model/accesses.hpp"

#include <cstddef>

namespace plait::test {

AccessFunction& on_access() {
  static AccessFunction function = nullptr;
  return function;
}

namespace {
void note(const void* place, std::size_t bytes, bool stores) {
  if (on_access() != nullptr) on_access()(place, bytes, stores);
}
}  // namespace
}  // namespace plait::test

using plait::test::note;

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler's names
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define PLAIT_ACCESSES(bytes)                                                        \
  void __tsan_read##bytes(void* place) { note(place, bytes, false); }                \
  void __tsan_write##bytes(void* place) { note(place, bytes, true); }                \
  void __tsan_read_write##bytes(void* place) { note(place, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* place) { note(place, bytes, false); }      \
  void __tsan_unaligned_write##bytes(void* place) { note(place, bytes, true); }      \
  void __tsan_unaligned_read_write##bytes(void* place) { note(place, bytes, true); } \
  void __tsan_volatile_read##bytes(void* place) { note(place, bytes, false); }       \
  void __tsan_volatile_write##bytes(void* place) { note(place, bytes, true); }
PLAIT_ACCESSES(1)
PLAIT_ACCESSES(2)
PLAIT_ACCESSES(4)
PLAIT_ACCESSES(8)
PLAIT_ACCESSES(16)
/// Of the guards of static variables.
unsigned char __tsan_atomic8_load(const volatile unsigned char* place, int) {
  return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}
void __tsan_read_range(void* place, unsigned long bytes) { note(place, bytes, false); }
void __tsan_write_range(void* place, unsigned long bytes) { note(place, bytes, true); }
}
// NOLINTEND(bugprone-reserved-identifier)
