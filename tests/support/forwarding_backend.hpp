// A target in front of another one, for tests that want it to differ in something.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "backends/backend.hpp"

namespace plait::test {

/// Does everything as `target` does.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<Backend> target) : target_(std::move(target)) {}

  const DeviceInfo& info() const noexcept override { return target_->info(); }
  DeviceUse& use() noexcept override { return target_->use(); }
  std::vector<int> links_to(std::span<const std::string> ids) const override {
    return target_->links_to(ids);
  }
  int bind() override { return target_->bind(); }
  void restore(int previous) noexcept override { target_->restore(previous); }
  void enter() override { target_->enter(); }
  void* allocate(std::size_t bytes) override { return target_->allocate(bytes); }
  void deallocate(void* pointer) noexcept override { target_->deallocate(pointer); }
  void* allocate_pinned(std::size_t bytes) override { return target_->allocate_pinned(bytes); }
  void deallocate_pinned(void* pointer) noexcept override { target_->deallocate_pinned(pointer); }
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    target_->copy(to, from, bytes, stream);
  }
  void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) override {
    target_->fill(to, value, bytes, stream);
  }
  void zero(void* to, std::size_t bytes) override { target_->zero(to, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override {
    target_->write(to, from, bytes);
  }
  void peek(std::span<const CopySpan> spans, NativeStream stream) override {
    target_->peek(spans, stream);
  }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit commit) override {
    return target_->reserve(ranks, bytes, token, commit);
  }
  MemoryOffer offer(void* pointer, std::size_t bytes, UniqueFd& descriptor) override {
    return target_->offer(pointer, bytes, descriptor);
  }
  bool can_map(const MemoryOffer& offer) const override { return target_->can_map(offer); }
  std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                         std::span<UniqueFd> descriptors) override {
    return target_->attach(rank, offers, descriptors);
  }
  std::uint64_t memory_number(const void* pointer, std::size_t bytes) override {
    return target_->memory_number(pointer, bytes);
  }
  DmaBuf export_dma_buf(void* address, std::size_t bytes) override {
    return target_->export_dma_buf(address, bytes);
  }
  bool commits_on_touch() const override { return target_->commits_on_touch(); }
  std::vector<MemoryLimit> memory_limits() const override { return target_->memory_limits(); }
  void use_host_memory() override { target_->use_host_memory(); }
  const void* queue(NativeStream stream) noexcept override { return target_->queue(stream); }
  NativeStream resolve(NativeStream stream) override { return target_->resolve(stream); }
  bool is_per_thread(NativeStream stream) const noexcept override {
    return target_->is_per_thread(stream);
  }
  std::uint64_t identity(NativeStream stream) override { return target_->identity(stream); }
  bool names_one_stream(NativeStream stream) const noexcept override {
    return target_->names_one_stream(stream);
  }
  bool is_live(NativeStream stream) const noexcept override { return target_->is_live(stream); }
  NativeStream create_stream() override { return target_->create_stream(); }
  void destroy_stream(NativeStream stream) noexcept override { target_->destroy_stream(stream); }
  void synchronize(NativeStream stream) override { target_->synchronize(stream); }
  bool is_done(NativeStream stream) override { return target_->is_done(stream); }
  void synchronize_device() override { target_->synchronize_device(); }
  bool is_capturing(NativeStream stream) override { return target_->is_capturing(stream); }
  bool captures_spread() const noexcept override { return target_->captures_spread(); }
  std::uint64_t capture(NativeStream stream) override { return target_->capture(stream); }
  std::unique_ptr<DeviceEvent> create_event(bool timed) override {
    return target_->create_event(timed);
  }
  std::unique_ptr<DeviceEvent> borrow_event(void* native) override {
    return target_->borrow_event(native);
  }
  void begin_capture(NativeStream stream) override { target_->begin_capture(stream); }
  std::unique_ptr<Graph> end_capture(NativeStream stream) override {
    return target_->end_capture(stream);
  }
  void host_call(NativeStream stream, std::function<void()> function) override {
    target_->host_call(stream, std::move(function));
  }
  KernelHandle find_kernel(std::string_view family, DataType type) const override {
    return target_->find_kernel(family, type);
  }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    target_->launch(kernel, shape, args, bytes, watch, stream);
  }
  double share(KernelHandle kernel, LaunchShape shape, const void* args) override {
    return target_->share(kernel, shape, args);
  }
  void load_kernels() override { target_->load_kernels(); }
  void load(KernelHandle kernel) override { target_->load(kernel); }
  bool shows_profiler_ranges() override { return target_->shows_profiler_ranges(); }
  void begin_profiler_range(const char* name) override { target_->begin_profiler_range(name); }
  void end_profiler_range() noexcept override { target_->end_profiler_range(); }

 private:
  std::shared_ptr<Backend> target_;
};

/// The host target, which says that it is device `ordinal` of CUDA, with the identity `id`.
class HostAsCuda : public ForwardingBackend {
 public:
  HostAsCuda(int ordinal, std::string id)
      : ForwardingBackend(open_backend(BackendKind::host, ordinal)),
        info_(ForwardingBackend::info()) {
    info_.backend = BackendKind::cuda;
    info_.ordinal = ordinal;
    info_.id = std::move(id);
  }
  const DeviceInfo& info() const noexcept override { return info_; }

 protected:
  DeviceInfo info_;
};

/// Registers `StandIn` as the CUDA target, with eight devices: for programs that are built without
/// that target.
template <class StandIn>
BackendRegistration stand_in_for_cuda() {
  return BackendRegistration({.kind = BackendKind::cuda,
                              .device_count = [] { return 8; },
                              .why_no_device = [] { return std::string(); },
                              .open = [](int ordinal) -> std::unique_ptr<Backend> {
                                return std::make_unique<StandIn>(ordinal);
                              }});
}

}  // namespace plait::test
