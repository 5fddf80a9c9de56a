// Accesses for AMD GPUs that are wrong, each in one way: isa_test.sh compiles
// tests/words/probes.hpp with each, and says which rule must find it. PLAIT_WRITE_BACK is the
// instruction that writes the caches back at system scope.
#pragma once
#include <cstdint>

#include "backends/hip/gcn.hpp"

namespace plait::wrong {

using hip::Gcn;

using GlobalWord = __attribute__((address_space(1))) std::uint32_t;
using StackWord = __attribute__((address_space(5))) std::uint32_t;
using GlobalHalf = __attribute__((address_space(1))) std::uint64_t;

__device__ inline GlobalWord* global_words(const void* p) { return (GlobalWord*)p; }
__device__ inline void store_word(std::uint32_t* p, std::uint32_t value) {
  __hip_atomic_store(global_words(p), value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void wait_for_all() { __builtin_amdgcn_s_waitcnt(0); }

// Release.

/// Caches are written back, and the flag is stored before that is done.
struct release_unwaited : Gcn {
  __device__ static void store_release(std::uint32_t* p, std::uint32_t value) {
    asm volatile(PLAIT_WRITE_BACK ::: "memory");
    store_word(p, value);
  }
};
/// The same, from compilers before https://github.com/llvm/llvm-project/pull/178316 (2026): where
/// no store is on its way, they drop the wait.
struct release_of_compiler : Gcn {
  __device__ static void store_release(std::uint32_t* p, std::uint32_t value) {
    __hip_atomic_store(global_words(p), value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  }
};
struct release_agent : Gcn {
  __device__ static void store_release(std::uint32_t* p, std::uint32_t value) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    wait_for_all();
    store_word(p, value);
  }
};
struct release_workgroup : Gcn {
  __device__ static void store_release(std::uint32_t* p, std::uint32_t value) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    wait_for_all();
    store_word(p, value);
  }
};
/// The flag first.
struct release_late : Gcn {
  __device__ static void store_release(std::uint32_t* p, std::uint32_t value) {
    store_word(p, value);
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    wait_for_all();
  }
};

// Acquire.

struct acquire_missing : Gcn {
  using Gcn::acquire;
  __device__ static void acquire() {}
};
struct acquire_workgroup : Gcn {
  using Gcn::acquire;
  __device__ static void acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); }
};
struct acquire_agent : Gcn {
  using Gcn::acquire;
  __device__ static void acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
};

// Polls.

struct poll_agent : Gcn {
  __device__ static std::uint32_t poll(const std::uint32_t* p) {
    return __hip_atomic_load(global_words(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
};
struct poll_workgroup : Gcn {
  __device__ static std::uint32_t poll(const std::uint32_t* p) {
    return __hip_atomic_load(global_words(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  }
};
struct pause_missing : Gcn {
  __device__ static void pause(unsigned) {}
};

// Barriers.

/// (`all` without its wait comes out right: what __syncthreads_and looks up for itself makes the
/// wave wait.)
struct sync_unwaited : Gcn {
  __device__ static void sync() { __syncthreads(); }
};
// Packs and packets.

/// Word by word. The compiler would join them, but for the statements between.
struct narrow_copy : Gcn {
  template <class P>
  __device__ static P load(const P* p) {
    std::uint32_t words[sizeof(P) / 4];
    PLAIT_UNROLL
    for (unsigned i = 0; i < sizeof(P) / 4; ++i) {
      words[i] = global_words(p)[i];
      asm volatile("" ::: "memory");
    }
    P pack;
    __builtin_memcpy(&pack, words, sizeof(P));
    return pack;
  }
};
/// Flags may arrive before the data beside them.
struct packet_words : Gcn {
  __device__ static void store_packet(Packet* packet, std::uint64_t low, std::uint64_t high) {
    store_word(&packet->data0, static_cast<std::uint32_t>(low));
    store_word(&packet->flag0, static_cast<std::uint32_t>(low >> 32));
    store_word(&packet->data1, static_cast<std::uint32_t>(high));
    store_word(&packet->flag1, static_cast<std::uint32_t>(high >> 32));
  }
};
/// One access of 16 bytes, which need not be atomic.
struct packet_whole : Gcn {
  __device__ static void store_packet(Packet* packet, std::uint64_t low, std::uint64_t high) {
    store(packet, Packet{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                         static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)});
  }
};
struct packet_agent : Gcn {
  __device__ static void store_packet(Packet* packet, std::uint64_t low, std::uint64_t high) {
    auto* halves = (GlobalHalf*)packet;
    __hip_atomic_store(halves, low, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_store(halves + 1, high, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
};
/// Data and flag of a half looked at one after the other.
struct packet_poll_words : Gcn {
  __device__ static void load_packet(const Packet* packet, std::uint64_t& low,
                                     std::uint64_t& high) {
    low = load_relaxed(&packet->data0) | std::uint64_t{load_relaxed(&packet->flag0)} << 32;
    high = load_relaxed(&packet->data1) | std::uint64_t{load_relaxed(&packet->flag1)} << 32;
  }
};

// Accesses that cost memory traffic or order for nothing.

/// A stack, which the compiler may not replace by registers.
struct spilled : Gcn {
  template <class P>
  __device__ static P load(const P* p) {
    P pack = Gcn::load(p);
    std::uint32_t stack[sizeof(P) / 4];
    auto* words = (volatile StackWord*)stack;
    for (unsigned i = 0; i < sizeof(P) / 4; ++i) words[i] = bits_as<std::uint32_t>(pack.lane[i]);
    for (unsigned i = 0; i < sizeof(P) / 4; ++i)
      pack.lane[i] = bits_as<float>(std::uint32_t{words[i]});
    return pack;
  }
};
/// A call.
struct called : Gcn {
  __device__ __attribute__((noinline)) static std::uint64_t nanoseconds() {
    return Gcn::nanoseconds();
  }
};
/// A pointer of which the compiler can't see that it is to global memory.
struct generic : Gcn {
  template <class P>
  __device__ static P load(const P* p) {
    asm volatile("" : "+v"(p));
    return *p;
  }
};

}  // namespace plait::wrong
