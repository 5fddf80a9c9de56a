// The words of backends/device.hpp on NVIDIA GPUs, sm_80 and newer: PTX for what crosses the link, the compiler for the rest.
#pragma once
#include <cstdint>

#include "backends/device.hpp"

namespace plait::cuda {

__device__ inline std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ inline std::uint32_t load_relaxed(const std::uint32_t* p) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

/// Keeps watch over a spin that has lasted for some tens of microseconds.
class Patience {
 public:
  __device__ explicit Patience(const Watch& watch) : watch_(watch), start_(nanoseconds()), looked_(start_) {}

  /// True when it is time to give up. Looks every ten microseconds: the abort word lies in host memory, a microsecond away.
  __device__ __noinline__ bool over(unsigned block, Waiting who, std::uint32_t expected, std::uint32_t seen) {
    const std::uint64_t now = nanoseconds();
    if (now - looked_ < 10'000) return false;
    looked_ = now;
    const bool expired = watch_.timeout_ns != 0 && now - start_ > watch_.timeout_ns;
    if (expired) report(block, who, expected, seen);
    return expired || load_relaxed(watch_.claimed) != 0 || load_relaxed(watch_.abort) != 0;
  }

 private:
  __device__ void report(unsigned block, Waiting who, std::uint32_t expected, std::uint32_t seen) {
    if (atomicCAS(watch_.claimed, 0u, 1u) != 0u) return;
    describe(*watch_.record, watch_, block, who, expected, seen);
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&watch_.record->state), "r"(1u) : "memory");
  }

  const Watch& watch_;
  std::uint64_t start_, looked_;
};

class Words {
 public:
  static constexpr std::size_t pack_bytes = 16;

  /// Asks whether an earlier call has given up: then this one must send nothing that its peers take for that call's. The answer is on its
  /// way while the kernel loads its epoch, so it costs no time.
  __device__ explicit Words(const Watch& watch) : watch_(watch), broken_(watch.claimed == nullptr ? 0 : load_relaxed(watch.claimed)) {}

  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned blocks() const { return gridDim.x; }
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned threads() const { return blockDim.x; }

  __device__ void sync() { __syncthreads(); }
  __device__ bool all(bool flag) { return __syncthreads_and(flag) != 0; }

  template <class T, std::size_t Bytes>
  __device__ Pack<T, Bytes> load(const Pack<T, Bytes>* p) const {
    if constexpr (Bytes == 16) {
      uint4 word;
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w) : "l"(p) : "memory");
      return bits_as<Pack<T, Bytes>>(word);
    } else {
      static_assert(Bytes == 8);
      uint2 word;
      asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "l"(p) : "memory");
      return bits_as<Pack<T, Bytes>>(word);
    }
  }

  template <class T, std::size_t Bytes>
  __device__ void store(Pack<T, Bytes>* p, const Pack<T, Bytes>& value) const {
    if constexpr (Bytes == 16) {
      const uint4 word = bits_as<uint4>(value);
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w) : "memory");
    } else {
      static_assert(Bytes == 8);
      const uint2 word = bits_as<uint2>(value);
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(word.x), "r"(word.y) : "memory");
    }
  }

  __device__ void signal(std::uint32_t* slot, std::uint32_t value) {
    if (broken_ != 0) return;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(slot), "r"(value) : "memory");
  }

  __device__ bool wait(const std::uint32_t* slot, std::uint32_t at_least, Waiting who) {
    std::uint32_t seen = 0;
    return spin(
        [&] {
          asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(slot) : "memory");
          return static_cast<std::int32_t>(seen - at_least) >= 0;
        },
        who, at_least, seen);
  }

  /// One 16-byte store. Each of its 8-byte halves is a single-copy atomic access and carries its own flag.
  __device__ void put(Packet* packet, PacketData data, std::uint32_t flag) {
    if (broken_ != 0) return;
    const std::uint64_t low = data.word[0] | (std::uint64_t{flag} << 32), high = data.word[1] | (std::uint64_t{flag} << 32);
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(packet), "l"(low), "l"(high) : "memory");
  }

  template <int Max>
  __device__ bool get(const Packet* const (&packets)[Max], PacketData (&data)[Max], int count, std::uint32_t flag,
                      const Waiting (&who)[Max]) {
    std::uint32_t seen = 0;
    Waiting missing = who[0];
    return spin(
        [&] {
          std::uint64_t low[Max], high[Max];
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            if (i < count)
              asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(low[i]), "=l"(high[i]) : "l"(packets[i]) : "memory");
          bool complete = true;
          PLAIT_UNROLL
          for (int i = 0; i < Max; ++i)
            if (i < count) {
              data[i] = {{static_cast<std::uint32_t>(low[i]), static_cast<std::uint32_t>(high[i])}};
              const auto flag0 = static_cast<std::uint32_t>(low[i] >> 32), flag1 = static_cast<std::uint32_t>(high[i] >> 32);
              if (flag0 == flag && flag1 == flag) continue;
              complete = false;
              seen = flag0 == flag ? flag1 : flag0;
              missing = who[i];
            }
          return complete;
        },
        missing, flag, seen);
  }

 private:
  /// About forty microseconds of plain polling, then with patience.
  template <class Ready>
  __device__ bool spin(Ready ready, const Waiting& who, std::uint32_t expected, const std::uint32_t& seen) {
    if (broken_ != 0) return false;
#pragma unroll 1
    for (int i = 0; i < 64; ++i)
      if (ready()) return true;
    Patience patience(watch_);
    for (;;) {
#pragma unroll 1
      for (int i = 0; i < 8; ++i)
        if (ready()) return true;
      if (patience.over(blockIdx.x, who, expected, seen)) return false;
    }
  }

  const Watch& watch_;
  std::uint32_t broken_;
};

}  // namespace plait::cuda
