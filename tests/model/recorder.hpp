// A target that keeps launches instead of running them, so that the explorer can run them in all
// orders. Everything above kernels is the library as it ships.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/model/instantiate.hpp"
#include "support/forwarding_backend.hpp"

namespace plait::test {

/// What all ranks of this process have launched, and the memory that they have.
class Recording {
 public:
  struct Memory {
    std::byte* address;
    std::size_t bytes;
    std::string name;
    std::vector<std::byte> before;
  };
  struct Kept {
    LaunchShape shape;
    std::function<void(model::KernelWords&)> run;
  };

  static Recording& instance() {
    static Recording only;
    return only;
  }

  LaunchShape most{1, 1};  // blocks and threads of devices, before communicators are created
  bool on = false;

  void add(int rank, Kept launch) {
    const std::lock_guard lock(mutex_);
    const auto place = static_cast<std::size_t>(rank);
    if (launches_.size() <= place) launches_.resize(place + 1);
    launches_[place].push_back(std::move(launch));
  }
  void add_memory(void* address, std::size_t bytes, std::string name) {
    const std::lock_guard lock(mutex_);
    memory_[address] = {static_cast<std::byte*>(address), bytes, std::move(name), {}};
  }
  void remove_memory(const void* address) {
    const std::lock_guard lock(mutex_);
    memory_.erase(address);
  }
  void clear() {
    for (const auto& blocks : blocks_) remove_memory(blocks.data());
    launches_.clear();
    blocks_.clear();
  }

  /// The program that all ranks have recorded.
  model::Program program(model::Explorer& explorer, std::function<std::string()> check) {
    model::Program program;
    blocks_.resize(launches_.size());
    for (std::size_t rank = 0; rank < launches_.size(); ++rank) {
      unsigned blocks = 1;
      for (const Kept& kept : launches_[rank]) blocks = std::max(blocks, kept.shape.blocks);
      blocks_[rank].resize(blocks);
      add_memory(blocks_[rank].data(), blocks_[rank].size() * sizeof(model::BlockMemory),
                 "memory of the blocks of rank " + std::to_string(rank));
      auto& launches = program.ranks.emplace_back();
      for (const Kept& kept : launches_[rank])
        launches.push_back(
            {kept.shape.blocks, kept.shape.threads,
             [&explorer, &kept, blocks = blocks_[rank].data()](model::Thread& thread) {
               model::KernelWords words(explorer, thread, blocks[thread.block]);
               kept.run(words);
             }});
    }
    for (auto& [address, memory] : memory_)
      memory.before.assign(memory.address, memory.address + memory.bytes);
    program.watches = [this](const void* place) { return find(place) != nullptr; };
    program.reset = [this] {
      for (const auto& [address, memory] : memory_)
        std::memcpy(memory.address, memory.before.data(), memory.bytes);
    };
    program.check = std::move(check);
    program.name = [this](std::uintptr_t address) { return name(address); };
    return program;
  }

 private:
  /// Null: not of a rank.
  const Memory* find(const void* place) const {
    auto found = memory_.upper_bound(place);
    if (found == memory_.begin()) return nullptr;
    const Memory& memory = (--found)->second;
    return static_cast<const std::byte*>(place) < memory.address + memory.bytes ? &memory : nullptr;
  }
  std::string name(std::uintptr_t address) const {
    const auto* const place =
        reinterpret_cast<const std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    const Memory* const memory = find(place);
    return memory == nullptr ? "memory of the program"
                             : memory->name + " + " + std::to_string(place - memory->address);
  }

  std::mutex mutex_;
  std::map<const void*, Memory> memory_;
  std::vector<std::vector<Kept>> launches_;
  std::vector<std::vector<model::BlockMemory>> blocks_;
};

/// Symmetric memory that the recording knows.
class RecordedRange final : public ReservedRange {
 public:
  RecordedRange(std::shared_ptr<ReservedRange> range, std::size_t bytes)
      : range_(std::move(range)), bytes_(bytes) {}
  ~RecordedRange() override {
    if (mine_ != nullptr) Recording::instance().remove_memory(mine_);
  }
  std::byte* address(int rank) const noexcept override { return range_->address(rank); }
  WindowView view(int rank) const noexcept override { return range_->view(rank); }
  bool commits_on_touch() const noexcept override { return range_->commits_on_touch(); }
  std::size_t committed(int rank) const override { return range_->committed(rank); }
  UniqueFd create_local(int rank) override {
    UniqueFd descriptor = range_->create_local(rank);
    mine_ = address(rank);
    Recording::instance().add_memory(mine_, bytes_,
                                     "symmetric memory of rank " + std::to_string(rank));
    return descriptor;
  }
  void import_peer(int rank, UniqueFd descriptor) override {
    range_->import_peer(rank, std::move(descriptor));
  }

 private:
  std::shared_ptr<ReservedRange> range_;
  std::size_t bytes_;
  std::byte* mine_ = nullptr;
};

/// What a recorder's kernels are.
struct RecordedKernel {
  model::ModelKernel model;
  const void* host;
};

class Recorder final : public HostAsCuda {
 public:
  explicit Recorder(int ordinal) : HostAsCuda(ordinal, "recorder " + std::to_string(ordinal)) {
    const LaunchShape most = Recording::instance().most;
    info_.facts.units = std::max(most.blocks, 2u);
    info_.facts.block_threads = info_.facts.max_block_threads = std::max(most.threads, 2u);
    info_.facts.peer_reads = false;
  }

  void* allocate(std::size_t bytes) override {
    void* const pointer = HostAsCuda::allocate(bytes);
    std::memset(pointer, 0, bytes);
    Recording::instance().add_memory(pointer, bytes, "device memory of rank " + rank());
    return pointer;
  }
  void deallocate(void* pointer) noexcept override {
    Recording::instance().remove_memory(pointer);
    HostAsCuda::deallocate(pointer);
  }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit commit) override {
    return std::make_shared<RecordedRange>(HostAsCuda::reserve(ranks, bytes, token, commit), bytes);
  }

  KernelHandle find_kernel(std::string_view family, DataType type) const override {
    const KernelHandle host = HostAsCuda::find_kernel(family, type);
    const auto* const found = KernelTable<model::ModelKernel>::instance().find(family, type);
    if (host == nullptr || found == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    return handles_
        .try_emplace(found, std::make_unique<RecordedKernel>(RecordedKernel{*found, host}))
        .first->second.get();
  }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    const auto& handle = *static_cast<const RecordedKernel*>(kernel);
    if (!Recording::instance().on)
      return HostAsCuda::launch(handle.host, shape, args, bytes, watch, stream);
    // With the alignment of any arguments.
    auto copy =
        std::make_shared<std::vector<std::max_align_t>>(max_kernel_args / sizeof(std::max_align_t));
    std::memcpy(copy->data(), args, bytes);
    Recording::instance().add(watch.rank, {shape, [kernel = handle.model, copy](auto& words) {
                                             kernel(words, copy->data());
                                           }});
  }

 private:
  std::string rank() const { return std::to_string(info_.ordinal); }

  mutable std::mutex mutex_;
  mutable std::map<const void*, std::unique_ptr<RecordedKernel>> handles_;
};

}  // namespace plait::test
