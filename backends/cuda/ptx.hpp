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
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
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
        "{\n\t.reg .u32 thread;\n\t.reg .u64 one;\n\tmov.u32 thread, %tid.x;\n\tcvt.u64.u32 one, "
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

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int bulk_threads = 0;
#else
  static constexpr int bulk_threads = 32;
#endif
  /// A warp's slots in shared memory, filled by the bulk copy engine of sm_90. Lane 0 starts a
  /// copy, and one mbarrier per slot counts its bytes. A phase of an mbarrier is one copy: lane 0
  /// alone arrives, with the number of bytes to come, and the phase ends when they have come. So
  /// `wait` ends as surely as a load does and needs no deadline.
  ///
  /// The engine accesses memory through the "async proxy" of PTX, not as threads do, so a fence
  /// stands wherever an access of the engine must come after an access of a thread:
  ///
  /// - A peer stored the data. Release, acquire and the block's barrier order that before lane 0's
  ///   construction of its staging memory, and the fence in the constructor orders it before the
  ///   engine's reads of global memory. One fence covers all copies, because a kernel does not wait
  ///   for more data after it.
  /// - Lane 0 initialised the mbarriers. The same fence orders that before the engine's arrivals,
  ///   and __syncwarp orders it before the other lanes' waits.
  /// - All lanes have read the slot. __syncwarp orders that before lane 0's fence for shared
  ///   memory, and that fence orders it before the engine's writes to the slot. No thread stores
  ///   into slots.
  /// - The engine has written the slot. A thread that has seen the end of the phase sees the bytes:
  ///   this is part of how the engine completes a copy.
  /// - A peer overwrites the data after this rank's signal. All copies were waited for before the
  ///   signal, so their bytes have been read by then.
  ///
  /// Only its parity distinguishes a phase from the one before. That is enough, because no lane can
  /// be two phases behind: a slot's next copy is started after all lanes have reached __syncwarp,
  /// and so have waited for the last copy.
  template <class P, int Slots, int Packs>
  class BulkStaging {
    static_assert(sizeof(P) == 16);
    static constexpr std::uint32_t row_bytes = bulk_threads * 16, slot_bytes = Packs * row_bytes;

   public:
    __device__ BulkStaging() {
      extern __shared__ __align__(128) uint4 plait_bulk_staging[];
      __shared__ std::uint64_t barriers[gpu::max_threads / 32][Slots];
      const unsigned warp = threadIdx.x / 32;
      slots_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(plait_bulk_staging)) +
               warp * Slots * slot_bytes;
      barriers_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers[warp]));
      if (threadIdx.x % 32 == 0) {
        PLAIT_UNROLL
        for (int slot = 0; slot < Slots; ++slot)
          asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier(slot)) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");  // for all memory
      }
      __syncwarp();
    }
    __device__ void copy(int slot, const P* from, unsigned packs) {
      __syncwarp();
      if (threadIdx.x % 32 != 0) return;
      asm volatile(
          "fence.proxy.async.shared::cta;\n\t"
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n\t"
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%3], %1, "
          "[%0];" ::"r"(barrier(slot)),
          "r"(packs * 16), "r"(slots_ + static_cast<unsigned>(slot) * slot_bytes), "l"(from)
          : "memory");
    }
    __device__ void wait(int slot) {
      std::uint32_t over;
      do {
        asm volatile(
            "{\n\t.reg .pred over;\n\tmbarrier.try_wait.parity.shared::cta.b64 over, [%1], "
            "%2;\n\tselp.u32 %0, 1, 0, over;\n\t}"
            : "=r"(over)
            : "r"(barrier(slot)), "r"(parities_ >> slot & 1u)
            : "memory");
      } while (over == 0);
      parities_ ^= 1u << slot;
    }
    __device__ P load(int slot, int pack) const {
      uint4 word;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "r"(slots_ + static_cast<unsigned>(slot) * slot_bytes +
                         static_cast<unsigned>(pack) * row_bytes + threadIdx.x % 32 * 16)
                   : "memory");
      return bits_as<P>(word);
    }

   private:
    __device__ std::uint32_t barrier(int slot) const {
      return barriers_ + static_cast<unsigned>(slot) * 8;
    }

    std::uint32_t slots_, barriers_;
    std::uint32_t parities_ = 0;  // one bit per slot: the parity of the phase to wait for next
  };

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

  __device__ static void sync() { __syncthreads(); }
  __device__ static bool all(bool flag) { return __syncthreads_and(flag) != 0; }
  __device__ static void pause() {}
};

}  // namespace plait::cuda
