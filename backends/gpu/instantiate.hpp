// Compiles a kernel family for a GPU and adds it to the target's table. Only for the kernel
// compilers: nvcc, or clang for HIP.
#pragma once
#include <array>

#include "backends/device/block_log.hpp"
#include "backends/gpu/gpu_kernels.hpp"
#include "backends/gpu/gpu_words.hpp"

namespace plait::gpu {

/// Number of blocks for which a multiprocessor must have registers at once. 0: the compiler
/// decides, and on NVIDIA GPUs it may spill registers to fit two.
template <class Kernel>
constexpr unsigned min_blocks_per_multiprocessor() {
  if constexpr (requires { Kernel::min_blocks_per_multiprocessor; }) {
    return Kernel::min_blocks_per_multiprocessor;
  } else {
    return 0;
  }
}

/// In blocks of two dimensions, which other libraries launch.
template <class Isa>
class WordsOfTeams : public KernelWords<Isa> {
 public:
  using KernelWords<Isa>::KernelWords;
  PLAIT_WORD unsigned thread() const { return threadIdx.y * blockDim.x + threadIdx.x; }
  PLAIT_WORD unsigned threads() const { return blockDim.x * blockDim.y; }

  /// This thread's part of such a kernel: `body(words)`. `given` is one of the kernel's parameters,
  /// and without a copy in shared memory each thread would make one of all of them.
  template <class Body>
  PLAIT_WORD static void run(const Watch& given, const Body& body) {
    Isa::begin();
    alignas(Watch) __shared__ std::byte place[sizeof(Watch)];
    Watch& watch = reinterpret_cast<Watch&>(place);
    if (threadIdx.x == 0 && threadIdx.y == 0) watch = given;
    Isa::sync();
    WordsOfTeams words(watch);
    log_start<Isa>(watch, words.block(), words.thread());
    body(words);
    log_end<Isa>(watch, words.block(), words.blocks(), words.thread());
  }
};

template <class Isa, class Kernel, class Args>
__global__ void __launch_bounds__(max_threads, min_blocks_per_multiprocessor<Kernel>())
    entry(const PLAIT_KERNEL_PARAMETER Args args, const PLAIT_KERNEL_PARAMETER Watch watch) {
  Isa::begin();
  KernelWords<Isa> words(watch);
  log_start<Isa>(watch, words.block(), words.thread());
  Kernel::run(words, args);
  log_end<Isa>(watch, words.block(), words.blocks(), words.thread());
}

/// Dynamic shared memory that a kernel needs per thread, for the packs that it stages.
template <class Isa, class Kernel>
constexpr std::size_t shared_bytes_per_thread() {
  if constexpr (Isa::staging_is_shared && requires { Kernel::staged_packs; }) {
    return Kernel::staged_packs * KernelWords<Isa>::pack_bytes;
  } else {
    return 0;
  }
}

/// One entry function per case of a kernel.
template <class Isa, class Args, class... Case>
auto entries(TypeList<Case...>) {
  return std::array<void (*)(Args, Watch), sizeof...(Case)>{entry<Isa, Case, Args>...};
}

/// The entry function that a launch with these arguments takes.
template <class Isa, class Kernel, class Args>
auto entry_for(const Args& args) {
  using Cases = KernelCases<Kernel, Args>;
  return entries<Isa, Args>(typename Cases::List{})[Cases::index(args)];
}

/// `Target` describes the runtime: Status (a value-initialised one means success), Stream, Isa,
/// Kernel (a GpuKernel), load(function, shared bytes), blocks_per_multiprocessor(blocks, function,
/// threads, shared bytes), and launch(kernel, shape, shared bytes, early, stream, args, watch).
template <class Target, class Kernel, class Args>
typename Target::Status launch(LaunchShape shape, bool early, const void* given, const Watch& watch,
                               typename Target::Stream stream) {
  using Isa = typename Target::Isa;
  const Args& args = *static_cast<const Args*>(given);
  return Target::launch(entry_for<Isa, Kernel>(args), shape,
                        shape.threads * shared_bytes_per_thread<Isa, Kernel>(), early, stream, args,
                        watch);
}

template <class Target, class Kernel, class Args>
typename Target::Status load() {
  using Isa = typename Target::Isa;
  for (const auto entry_function : entries<Isa, Args>(typename KernelCases<Kernel, Args>::List{})) {
    const auto status = Target::load(reinterpret_cast<const void*>(entry_function),
                                     max_threads * shared_bytes_per_thread<Isa, Kernel>());
    if (status != typename Target::Status{}) return status;
  }
  return {};
}

template <class Target, class Kernel, class Args>
typename Target::Status blocks_per_multiprocessor(int* blocks, unsigned threads,
                                                  const void* given) {
  using Isa = typename Target::Isa;
  return Target::blocks_per_multiprocessor(
      blocks,
      reinterpret_cast<const void*>(entry_for<Isa, Kernel>(*static_cast<const Args*>(given))),
      static_cast<int>(threads), threads * shared_bytes_per_thread<Isa, Kernel>());
}

template <class Target, class Kernel, class Args>
constexpr typename Target::Kernel kernel_of() {
  return {launch<Target, Kernel, Args>, load<Target, Kernel, Args>,
          blocks_per_multiprocessor<Target, Kernel, Args>};
}
template <class Target, class Kernel, class Args>
void add_kernel(std::string_view family, DataType type) {
  KernelTable<typename Target::Kernel>::instance().add(family, type,
                                                       kernel_of<Target, Kernel, Args>());
}

template <class Target, template <class> class Kernel, class Args, class Entry>
void add_with_batch(const char* family) {
  using K = Kernel<typename Listed<Entry>::Element>;
  for (const DataType type : Listed<Entry>::data_types) {
    add_kernel<Target, K, Args>(family, type);
    if constexpr (requires { typename K::BatchArgs; }) {
      if constexpr (Target::Isa::indexed_arguments || !requires { K::batch_indexes_arguments; }) {
        add_kernel<Target, K, typename K::BatchArgs>(batch_family(family), type);
      }
    }
  }
}

template <class Target, template <class> class Kernel, class Args, class... Entry>
bool add_kernels(const char* family, TypeList<Entry...>) {
  (add_with_batch<Target, Kernel, Args, Entry>(family), ...);
  return true;
}

}  // namespace plait::gpu
