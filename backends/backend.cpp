#include "backends/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

std::map<BackendKind, BackendEntry>& entries() {
  static std::map<BackendKind, BackendEntry> map;
  return map;
}

}  // namespace

BackendRegistration::BackendRegistration(const BackendEntry& entry) {
  entries()[entry.kind] = entry;
}

bool is_built(BackendKind kind) { return entries().contains(kind); }

int device_count(BackendKind kind) {
  const FloatEnvironment defaults;  // a GPU's driver may start here
  const StandardFdsTaken taken;
  return is_built(kind) ? entries()[kind].device_count() : 0;
}

std::string why_no_device(BackendKind kind) {
  if (!is_built(kind)) return fmt::format("{} is not built into this library", name_of(kind));
  return entries()[kind].why_no_device();
}

int current_device(BackendKind kind) {
  const FloatEnvironment defaults;
  const StandardFdsTaken taken;
  return is_built(kind) ? entries()[kind].current_device() : 0;
}

std::shared_ptr<DeviceUse> device_use(BackendKind kind, int ordinal) {
  static std::mutex mutex;
  static std::map<std::pair<BackendKind, int>, std::weak_ptr<DeviceUse>> known;
  const std::lock_guard lock(mutex);
  auto& entry = known[{kind, ordinal}];
  auto use = entry.lock();
  if (use == nullptr) entry = use = std::make_shared<DeviceUse>();
  return use;
}

DeviceFacts weaker(const DeviceFacts& a, const DeviceFacts& b) {
  // All members by name, so a new fact does not compile until this function says which of two
  // values is the weaker.
  const auto& [units, block_threads, max_block_threads, line_threads, peer_access,
               indexed_arguments, peer_reads, launch_us, hop_us, signal_us, link_bandwidth,
               push_bandwidth, packet_bandwidth, copy_us, copy_bandwidth] = a;
  return {.units = std::min(units, b.units),
          .block_threads = std::min(block_threads, b.block_threads),
          .max_block_threads = std::min(max_block_threads, b.max_block_threads),
          .line_threads = std::min(line_threads, b.line_threads),
          .peer_access = peer_access && b.peer_access,
          .indexed_arguments = indexed_arguments && b.indexed_arguments,
          .peer_reads = peer_reads && b.peer_reads,
          .launch_us = std::max(launch_us, b.launch_us),
          .hop_us = std::max(hop_us, b.hop_us),
          .signal_us = std::max(signal_us, b.signal_us),
          .link_bandwidth = std::min(link_bandwidth, b.link_bandwidth),
          .push_bandwidth = std::min(push_bandwidth, b.push_bandwidth),
          .packet_bandwidth = std::min(packet_bandwidth, b.packet_bandwidth),
          .copy_us = std::max(copy_us, b.copy_us),
          .copy_bandwidth = std::min(copy_bandwidth, b.copy_bandwidth)};
}

std::unique_ptr<Backend> Backend::again() const {
  return open_backend(info().backend, info().ordinal);
}

MemoryOffer Backend::offer(void*, std::size_t, UniqueFd&) {
  throw Error(ErrorCode::unsupported,
              fmt::format("{} attaches no memory", name_of(info().backend)));
}
std::shared_ptr<SymmetricRange> Backend::attach(int, std::span<const MemoryOffer>,
                                                std::span<UniqueFd>) {
  return nullptr;
}

std::unique_ptr<Backend> open_backend(BackendKind kind, int ordinal) {
  const int count = device_count(kind);
  if (count == 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("backend {}: {}", name_of(kind), why_no_device(kind)));
  if (kind != BackendKind::host && (ordinal < 0 || ordinal >= count))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("backend {}: device {} does not exist, there are {}", name_of(kind),
                            ordinal, count));
  return entries()[kind].open(ordinal);
}

}  // namespace plait
