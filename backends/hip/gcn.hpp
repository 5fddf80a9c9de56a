// `Isa` of backends/gpu/gpu_words.hpp for AMD GPUs, gfx90a and gfx942. None of it has run on such a
// GPU yet: docs/amd.md says what was proved instead, and tests/hip/ reads the generated
// instructions.
//
// Memory that peers share is uncached (or else fine-grained; see hip_range.cpp), so no cache holds
// an old copy of it.
#pragma once
#include <cstdint>

#include "backends/device/device.hpp"

namespace plait::hip {

struct Gcn {
  template <std::size_t Bytes>
  using Vector = std::uint32_t __attribute__((ext_vector_type(Bytes / 4)));

  static constexpr int line_threads = 0, line_group = 0;  // nothing larger than 8 bytes is atomic

  PLAIT_WORD static void begin() {}

  /// The constant clock of both architectures runs at 100 MHz (hip_backend.cpp checks it).
  PLAIT_WORD static std::uint64_t nanoseconds() { return __builtin_amdgcn_s_memrealtime() * 10; }

  template <class P>
  PLAIT_WORD static P load(const P* p) {
    return bits_as<P>(*global<const Vector<sizeof(P)>>(p));
  }
  template <class P>
  PLAIT_WORD static void store(P* p, const P& value) {
    *global<Vector<sizeof(P)>>(p) = bits_as<Vector<sizeof(P)>>(value);
  }

  PLAIT_WORD static std::uint32_t load_relaxed(const std::uint32_t* p) {
    return __hip_atomic_load(global<std::uint32_t>(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  PLAIT_WORD static std::uint64_t load_relaxed(const std::uint64_t* p) {
    return __hip_atomic_load(global<std::uint64_t>(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  PLAIT_WORD static void store_relaxed(std::uint64_t* p, std::uint64_t value) {
    __hip_atomic_store(global<std::uint64_t>(p), value, __ATOMIC_RELAXED,
                       __HIP_MEMORY_SCOPE_SYSTEM);
  }
  PLAIT_WORD static void count(std::uint64_t* p) {
    __hip_atomic_fetch_add(global<std::uint64_t>(p), std::uint64_t{1}, __ATOMIC_RELAXED,
                           __HIP_MEMORY_SCOPE_SYSTEM);
  }
  /// Not __hip_atomic_store(..., __ATOMIC_RELEASE, ...): for that, clang 16 to 19 write the caches
  /// back, but where no store of this wave is in flight they store the flag without waiting for the
  /// write-back (llvm/llvm-project#178316).
  PLAIT_WORD static void store_release(std::uint32_t* p, std::uint32_t value) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");  // "": system scope
    wait_for_memory();
    __hip_atomic_store(global<std::uint32_t>(p), value, __ATOMIC_RELAXED,
                       __HIP_MEMORY_SCOPE_SYSTEM);
  }
  /// Relaxed, because an acquire would invalidate the caches at every poll of a spin.
  PLAIT_WORD static std::uint32_t poll(const std::uint32_t* p) { return load_relaxed(p); }
  PLAIT_WORD static void acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }

  /// Two 8-byte stores, because no larger access is atomic on these GPUs.
  PLAIT_WORD static void store_packet(Packet* packet, std::uint64_t low, std::uint64_t high) {
    auto* halves = global<std::uint64_t>(packet);
    __hip_atomic_store(halves, low, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(halves + 1, high, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  PLAIT_WORD static void load_packet(const Packet* packet, std::uint64_t& low,
                                     std::uint64_t& high) {
    auto* halves = global<std::uint64_t>(packet);
    low = __hip_atomic_load(halves, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    high = __hip_atomic_load(halves + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }

  /// For an addition, clang would first make one sum for the wave, behind branches.
  PLAIT_WORD static std::uint32_t arrive(std::uint32_t* word) {
    release();
    const std::uint32_t before = __builtin_amdgcn_atomic_inc32(global<std::uint32_t>(word),
                                                               0xffffffffu, __ATOMIC_RELAXED, "");
    acquire();
    return before;
  }

  PLAIT_WORD static void release() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");  // "": system scope
    wait_for_memory();
  }
  /// After the load that saw the word.
  PLAIT_WORD static void acquire(const std::uint64_t*) { acquire(); }

  /// In registers, filled by plain loads: loads are asynchronous here until their value is used,
  /// and the compiler counts them (s_waitcnt vmcnt). gfx90a and gfx942 can load only 4 bytes per
  /// thread straight into LDS.
  static constexpr bool staging_is_shared = false;
  template <class P, int Count>
  class Staging {
   public:
    PLAIT_WORD void copy_async(int place, const P* from) {
      words_[place] = *global<const Vector<sizeof(P)>>(from);
    }
    PLAIT_WORD void commit() {}
    template <int Pending>
    PLAIT_WORD void wait_pending() {}
    PLAIT_WORD P load(int place) const { return bits_as<P>(words_[place]); }

   private:
    Vector<sizeof(P)> words_[Count] = {};
  };
  static constexpr bool indexed_arguments = false;
  /// Moves the value to scalar registers, because a thread has more of them to spare than vector
  /// registers.
  template <class T>
  PLAIT_WORD static T uniform(const T& value) {
    struct Registers {
      std::uint32_t word[sizeof(T) / sizeof(std::uint32_t)];
    };
    auto registers = bits_as<Registers>(value);
    PLAIT_UNROLL
    for (auto& word : registers.word) word = __builtin_amdgcn_readfirstlane(word);
    return bits_as<T>(registers);
  }
  template <class T>
  PLAIT_WORD static T* to_global(T* pointer) {
    // By way of an integer, because the compiler would fold a cast there and back.
    return (T*)(Global<T>*)reinterpret_cast<std::uintptr_t>(pointer);
  }

  PLAIT_WORD static float of_lane_apart(float value, unsigned apart) {
    return __shfl_xor(value, static_cast<int>(apart));
  }
  /// Every wave waits until its own stores are done. A release by one thread after the barrier
  /// waits for that thread's wave only, and requests of one workgroup to different channels of the
  /// cache may overtake each other.
  PLAIT_WORD static void sync() {
    wait_for_memory();
    __syncthreads();
  }
  PLAIT_WORD static bool all(bool flag) {
    wait_for_memory();
    return __syncthreads_and(flag) != 0;
  }
  /// 64 cycles, which leave issue slots to the other waves.
  PLAIT_WORD static void pause(unsigned) { __builtin_amdgcn_s_sleep(1); }

 private:
  /// Marks a pointer as one to global memory, which has separate instructions.
  template <class T>
  using Global = __attribute__((address_space(1))) T;
  template <class T, class U>
  PLAIT_WORD static Global<T>* global(U* p) {
    return (Global<T>*)p;
  }

  PLAIT_WORD static void wait_for_memory() { __builtin_amdgcn_s_waitcnt(0); }
};

}  // namespace plait::hip
