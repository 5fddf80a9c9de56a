#include "backends/hip/hip_range.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "backends/gpu/beside_captures.hpp"
#include "backends/hip/ipc.hpp"
#include "backends/hip/lease.hpp"
#include "backends/hip/runtime.hpp"
#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::hip {
namespace {

/// Device memory that peers may write while kernels read it: no cache keeps any of it, or the cache
/// is told of peers' changes. On AMD GPUs that is uncached memory; older drivers and devices have
/// only fine-grained memory.
void* allocate_shared(std::size_t bytes) {
  void* pointer = nullptr;
#if defined(__HIP_PLATFORM_NVIDIA__)
  Runtime::allocate(&pointer, bytes);  // all device memory is like that
#else
  const hipError_t status = hipExtMallocWithFlags(&pointer, bytes, hipDeviceMallocUncached);
  if (status == hipErrorInvalidValue || status == hipErrorNotSupported) {
    gpu::StatusTraits<hipError_t>::forget();
    gpu::check(hipExtMallocWithFlags(&pointer, bytes, hipDeviceMallocFinegrained),
               "hipExtMallocWithFlags (fine-grained)");
  } else {
    gpu::check(status, "hipExtMallocWithFlags (uncached)");
  }
#endif
  return pointer;
}

/// Device memory, freed by the destructor.
class DeviceMemory {
 public:
  DeviceMemory(void* pointer, int ordinal) : pointer_(pointer), ordinal_(ordinal) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)), ordinal_(other.ordinal_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() {
    if (pointer_ == nullptr) return;
    const CurrentDevice device(ordinal_);
    static_cast<void>(Runtime::free.status(pointer_));
  }
  std::byte* get() const { return static_cast<std::byte*>(pointer_); }

 private:
  void* pointer_;
  int ordinal_;
};

/// Memory that its owner no longer needs but a peer still has open. The list is searched whenever
/// memory is shared or released, so a later call frees the memory; memory that remains when the
/// process ends is freed with the process.
class Retired {
 public:
  static void add(DeviceMemory memory, Lease lease) {
    const std::lock_guard lock(mutex());
    list().push_back({std::move(memory), std::move(lease)});
  }
  static void sweep() {
    std::list<Item> free;  // outside the lock: freeing waits for the device
    const std::lock_guard lock(mutex());
    for (auto it = list().begin(); it != list().end();) {
      const auto next = std::next(it);
      if (it->lease.ended()) free.splice(free.end(), list(), it);
      it = next;
    }
  }

 private:
  struct Item {
    DeviceMemory memory;
    Lease lease;
  };
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::list<Item>& list() {
    static auto* items = new std::list<Item>;  // never destroyed: the runtime may be gone by then
    return *items;
  }
};

/// The facts that peers read through the lease.
struct Offer {
  std::uint64_t process;
  std::byte* pointer;  // in that process
  int ordinal;         // in that process
  IpcAddress address;
};

/// The runtime chooses where it maps peers' memory, so kernels get a table of distances.
class HipRange final : public ReservedRange {
 public:
  HipRange(int ranks, std::size_t bytes, int ordinal)
      : ordinal_(ordinal),
        bytes_(bytes),
        addresses_(static_cast<std::size_t>(ranks)),
        peers_(static_cast<std::size_t>(ranks)) {
    const gpu::BesideCaptures<Runtime> beside;
    void* table = nullptr;
    Runtime::allocate(&table, sizeof(std::ptrdiff_t) * static_cast<std::size_t>(ranks));
    distances_ = std::make_unique<DeviceMemory>(table, ordinal);
  }
  ~HipRange() override {
    peers_.clear();  // closes, then tells the owners
    if (memory_ && lease_)
      Retired::add(std::move(*memory_), std::move(*lease_));  // without a lease no peer has it
    Retired::sweep();
  }
  HipRange(const HipRange&) = delete;
  HipRange& operator=(const HipRange&) = delete;

  std::byte* address(int rank) const noexcept override {
    return addresses_[static_cast<std::size_t>(rank)];
  }
  WindowView view(int rank) const noexcept override {
    return {.own = address(rank),
            .stride = 0,
            .distances = reinterpret_cast<const std::ptrdiff_t*>(distances_->get()),
            .rank = rank};
  }

  UniqueFd create_local(int rank) override {
    const gpu::BesideCaptures<Runtime> beside;
    Retired::sweep();
    memory_ = std::make_unique<DeviceMemory>(allocate_shared(bytes_), ordinal_);
    gpu::zero<Runtime>(memory_->get(), bytes_);
    const Offer offer{process_number(), memory_->get(), ordinal_, IpcAddress::of(memory_->get())};
    lease_ = std::make_unique<Lease>(std::as_bytes(std::span(&offer, 1)));
    own_ = rank;
    place(rank, memory_->get());
    return lease_->take();
  }

  void import_peer(int rank, UniqueFd descriptor) override {
    const gpu::BesideCaptures<Runtime> beside;
    Offer offer{};
    Lease::read(descriptor, std::as_writable_bytes(std::span(&offer, 1)));
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (offer.process == process_number()) {
      enable_peer_access(ordinal_, offer.ordinal);
      place(rank, offer.pointer);
    } else {
      peer.mapping = open_ipc(offer.address, ordinal_);
      place(rank, peer.mapping.get());
    }
    peer.lease = std::move(descriptor);
  }

 private:
  /// Another rank's memory. The mapping must be closed before the lease ends.
  struct Peer {
    UniqueFd lease;
    std::shared_ptr<std::byte> mapping;  // none for memory of this process
  };

  void place(int rank, std::byte* pointer) {
    addresses_[static_cast<std::size_t>(rank)] = pointer;
    const std::ptrdiff_t distance = pointer - address(own_);
    gpu::check(hipMemcpy(distances_->get() + sizeof distance * static_cast<std::size_t>(rank),
                         &distance, sizeof distance, hipMemcpyHostToDevice),
               "hipMemcpy");
  }

  int ordinal_, own_ = 0;
  std::size_t bytes_;
  std::unique_ptr<DeviceMemory> distances_, memory_;
  std::unique_ptr<Lease> lease_;
  std::vector<std::byte*> addresses_;
  std::vector<Peer> peers_;
};

}  // namespace

std::shared_ptr<ReservedRange> make_range(int ranks, std::size_t bytes, int ordinal) {
  return std::make_shared<HipRange>(ranks, (bytes + granularity - 1) / granularity * granularity,
                                    ordinal);
}

/// By the runtime below HIP.
DmaBuf export_dma_buf([[maybe_unused]] void* address, [[maybe_unused]] std::size_t bytes) {
#if !defined(__HIP_PLATFORM_NVIDIA__)
  using Export =
      int (*)(const void*, std::size_t, int*, std::uint64_t*);  // hsa_status_t: 0 is good
  static const auto function = [] {
    void* const library = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr
               ? nullptr
               : reinterpret_cast<Export>(dlsym(library, "hsa_amd_portable_export_dmabuf"));
  }();
  const StandardFdsTaken taken;
  int descriptor = -1;
  std::uint64_t offset = 0;
  if (function != nullptr && function(address, bytes, &descriptor, &offset) == 0)
    return {.descriptor = StandardFdsTaken::own(descriptor), .offset = offset};
#endif
  return {};
}

}  // namespace plait::hip
