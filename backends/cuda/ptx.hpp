// `Isa` of backends/gpu/gpu_words.hpp for NVIDIA GPUs, sm_80 and newer: all accesses that cross the
// link are PTX.
#pragma once
#include <cstdint>

#include "backends/device/device.hpp"
#include "backends/gpu/gpu_kernels.hpp"

namespace plait::cuda {

struct Ptx {
  /// Comes first in a kernel, which may have been started early. So it waits until the stream's
  /// earlier work is done and its writes are visible, then lets the next kernel be started early.
  /// (All blocks of this kernel are running by then, so the next one takes no place from them.)
  __device__ static void begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
  }

  __device__ static std::uint64_t nanoseconds() {
    std::uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }

  template <class P>
  __device__ static P load(const P* p) {
    if constexpr (sizeof(P) == 16) {
      uint4 word;
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "l"(p)
                   : "memory");
      return bits_as<P>(word);
    } else {
      static_assert(sizeof(P) == 8);
      uint2 word;
      asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(word.x), "=r"(word.y)
                   : "l"(p)
                   : "memory");
      return bits_as<P>(word);
    }
  }
  template <class P>
  __device__ static void store(P* p, const P& value) {
    if constexpr (sizeof(P) == 16) {
      const uint4 word = bits_as<uint4>(value);
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(word.x), "r"(word.y),
                   "r"(word.z), "r"(word.w)
                   : "memory");
    } else {
      static_assert(sizeof(P) == 8);
      const uint2 word = bits_as<uint2>(value);
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(word.x), "r"(word.y)
                   : "memory");
    }
  }

  __device__ static std::uint32_t load_relaxed(const std::uint32_t* p) {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    return value;
  }
  __device__ static std::uint64_t load_relaxed(const std::uint64_t* p) {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
    return value;
  }
  __device__ static void store_relaxed(std::uint64_t* p, std::uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
  }
  /// The addend is computed from %tid.x, which is 0. For a constant, ptxas would first make one sum
  /// for the warp, which takes a dozen instructions.
  __device__ static void count(std::uint64_t* p) {
    asm volatile(
        "{\n\t.reg .u32 thread;\n\t.reg .u64 one;\n\tmov.u32 thread, %%tid.x;\n\tcvt.u64.u32 one, "
        "thread;\n\tadd.u64 one, one, 1;\n\t"
        "red.relaxed.sys.global.add.u64 [%0], one;\n\t}" ::"l"(p)
        : "memory");
  }
  __device__ static void store_release(std::uint32_t* p, std::uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
  }
  /// This load is an acquire, so `acquire` has nothing to do.
  __device__ static std::uint32_t poll(const std::uint32_t* p) {
    std::uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    return value;
  }
  __device__ static void acquire() {}

  /// One 16-byte access. Each of its 8-byte halves is a single-copy atomic access.
  __device__ static void store_packet(Packet* packet, std::uint64_t low, std::uint64_t high) {
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(packet), "l"(low), "l"(high)
                 : "memory");
  }
  __device__ static void load_packet(const Packet* packet, std::uint64_t& low,
                                     std::uint64_t& high) {
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(low), "=l"(high)
                 : "l"(packet)
                 : "memory");
  }

  __device__ static std::uint32_t arrive(std::uint32_t* word) {
    std::uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(word)
                 : "memory");
    return before;
  }

  __device__ static void release() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
  /// A fence would wait for this thread's stores, too. So the word, which stays as it is until this
  /// thread changes it, is loaded once more, by an acquire.
  __device__ static void acquire(const std::uint64_t* word) {
    asm volatile("{\n\t.reg .u64 value;\n\tld.acquire.sys.global.u64 value, [%0];\n\t}" ::"l"(word)
                 : "memory");
  }

  /// In shared memory, thread beside thread, so a warp's accesses are contiguous. `cg` bypasses the
  /// L1, which suits a peer's memory.
  static constexpr bool staging_is_shared = true;
  template <class P, int Count>
  class Staging {
    static_assert(sizeof(P) == 16);

   public:
    __device__ Staging() {
      extern __shared__ uint4 plait_staging[];
      first_ =
          static_cast<std::uint32_t>(__cvta_generic_to_shared(plait_staging)) + threadIdx.x * 16;
    }
    __device__ void copy_async(int place, const P* from) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(place)), "l"(from)
                   : "memory");
    }
    __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
    template <int Pending>
    __device__ void wait_pending() {
      asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
    }
    __device__ P load(int place) const {
      uint4 word;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "r"(address(place))
                   : "memory");
      return bits_as<P>(word);
    }

   private:
    __device__ std::uint32_t address(int place) const {
      return first_ + static_cast<unsigned>(place) * blockDim.x * 16;
    }

    std::uint32_t first_;
  };

  static constexpr bool indexed_arguments = true;
  template <class T>
  __device__ static T* to_global(T* pointer) {
    return pointer;
  }
  template <class T>
  __device__ static T uniform(const T& value) {
    return value;
  }

  /// Over NVLink, adjacent 16-byte stores of eight threads in one instruction arrive as one write
  /// of 128 bytes, and a load sees all or nothing of it. So eight threads that have diverged must
  /// converge first. Neither `vote.sync` nor `bar.warp.sync` achieves that: threads that had
  /// diverged before these are apart again after them (docs/algorithms/twoshot_ll.md). A barrier of
  /// the block does, and so does a named barrier with only the warp in it, which also votes. It
  /// replaces a vote, so accesses need no separate barrier. Number 0 is __syncthreads; there are
  /// 16, so a block has at most 15 warps.
  static constexpr int line_threads = 8, line_group = 32;
  __device__ static bool any_of_group(bool flag) {
    std::uint32_t any;
    asm volatile(
        "{\n\t.reg .pred mine, any;\n\tsetp.ne.u32 mine, %1, 0;\n\tbar.red.or.pred any, %2, 32, "
        "mine;\n\tselp.u32 %0, 1, 0, any;\n\t}"
        : "=r"(any)
        : "r"(static_cast<std::uint32_t>(flag)), "r"(1 + threadIdx.x / 32)
        : "memory");
    return any != 0;
  }
  /// Predicated, because threads could diverge at a branch.
  __device__ static void store_share(Packet* share, std::uint64_t low, std::uint64_t high,
                                     bool live) {
    asm volatile(
        "{\n\t.reg .pred live;\n\tsetp.ne.u32 live, %3, 0;\n\t@live st.relaxed.sys.global.v2.b64 "
        "[%0], {%1, %2};\n\t}" ::"l"(share),
        "l"(low), "l"(high), "r"(static_cast<std::uint32_t>(live))
        : "memory");
  }
  /// Loads 0 where it is not live.
  __device__ static void load_share(const Packet* share, std::uint64_t& low, std::uint64_t& high,
                                    bool live) {
    low = high = 0;
    asm volatile(
        "{\n\t.reg .pred live;\n\tsetp.ne.u32 live, %3, 0;\n\t@live ld.relaxed.sys.global.v2.b64 "
        "{%0, %1}, [%2];\n\t}"
        : "+l"(low), "+l"(high)
        : "l"(share), "r"(static_cast<std::uint32_t>(live))
        : "memory");
  }

  __device__ static float of_lane_apart(float value, unsigned apart) {
    return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(apart));
  }
  __device__ static void sync() { __syncthreads(); }
  __device__ static bool all(bool flag) { return __syncthreads_and(flag) != 0; }
  /// A peer that is on time comes within 64 polls, some 40 us, so no call that hurries sleeps.
  /// Beyond that a spin costs up to 140 W (docs/benchmarks/h200-2.md).
  __device__ static void pause(unsigned polls) {
    if (polls >= 64) __nanosleep(polls < 512 ? 100 : 1000);
  }
};

}  // namespace plait::cuda
