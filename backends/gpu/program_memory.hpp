// The program's own device memory: what CUDA and HIP share of offering and mapping it.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/attached_range.hpp"
#include "backends/gpu/beside_captures.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"

namespace plait::gpu {

/// What a runtime knows of an address.
struct MemoryFacts {
  bool is_device = false, is_managed = false;
  int ordinal = -1;
  std::uint64_t base = 0, bytes = 0;  // of the allocation
};

/// The offer of `bytes` bytes at `pointer`, for device `ordinal`, but for how peers reach it.
/// Throws Error(invalid_argument) if it is not that device's own memory.
inline MemoryOffer offer_of(const MemoryFacts& facts, const void* pointer, std::size_t bytes,
                            int ordinal) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} with {} bytes can't be attached: {}", pointer, bytes, why));
  };
  if (facts.is_managed) refuse("managed memory moves between devices");
  if (!facts.is_device) refuse("it is no device memory");
  if (facts.ordinal != ordinal)
    refuse(fmt::format("it is memory of device {}, and this rank's is {}", facts.ordinal, ordinal));
  if (address < facts.base || bytes > facts.bytes - (address - facts.base))
    refuse(
        fmt::format("the allocation, or the piece of it that one handle stands for, has {} "
                    "bytes from there on",
                    facts.bytes - (address - facts.base)));
  return {.way = MemoryOffer::Way::handle,
          .ordinal = ordinal,
          .process = process_number(),
          .address = address,
          .bytes = bytes,
          .offset = address - facts.base,
          .mapped = facts.bytes};
}

/// A table in the current device's memory.
template <class Runtime>
std::shared_ptr<const std::ptrdiff_t> device_table(const std::vector<std::ptrdiff_t>& values) {
  void* memory = nullptr;
  const std::size_t bytes = values.size() * sizeof values.front();
  Runtime::allocate(&memory, bytes);
  std::shared_ptr<void> table(
      memory, [](void* pointer) { static_cast<void>(Runtime::free.status(pointer)); });
  on_own_stream<Runtime>(
      [&](auto stream) { Runtime::copy(memory, values.data(), bytes, Runtime::copy_any, stream); });
  return {table, static_cast<const std::ptrdiff_t*>(memory)};
}

/// Makes the range out of a mapping per peer. `open(peer)` returns where the peer's allocation
/// begins in this process, and keeps it mapped; a null pointer: the peer's own address serves.
template <class Runtime>
std::shared_ptr<SymmetricRange> attach_each(
    int rank, std::span<const MemoryOffer> offers,
    const std::function<std::shared_ptr<void>(std::size_t peer)>& open) {
  const BesideCaptures<Runtime> beside;
  return std::make_shared<AttachedRange>(
      rank, offers,
      [&](std::size_t peer) -> std::shared_ptr<std::byte> {
        const auto base = open(peer);
        if (base == nullptr) return nullptr;
        return {base, static_cast<std::byte*>(base.get()) + offers[peer].offset};
      },
      device_table<Runtime>);
}

}  // namespace plait::gpu
