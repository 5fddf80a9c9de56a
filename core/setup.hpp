// The choices that ranks make together when a communicator is created.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "backends/backend.hpp"
#include "core/algorithm.hpp"
#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// Settings from options and environment; but for `progress` and `trace` equal on all ranks once `agree_on_settings` has returned.
struct Settings {
  std::optional<std::size_t> scratch_bytes;  // PLAIT_SCRATCH_BYTES; else `default_scratch`
  std::size_t work_fifo_bytes;               // PLAIT_WORK_FIFO_BYTES, default 256 KB, a power of two
  std::chrono::nanoseconds timeout;          // PLAIT_TIMEOUT seconds, default 10 minutes, 0: none
  bool check_calls;                          // PLAIT_CHECK=1: compare every call on the host before it is enqueued
  bool progress;                             // PLAIT_PROGRESS, default 1: blocks count what they start and complete
  bool peer_access;                          // unless PLAIT_DISABLE_P2P=1: devices use each other's memory, where they reach it
  std::optional<std::string> trace;          // PLAIT_TRACE: the file to write a trace to
};

/// 128 MB, and twice that for three GPUs or more that reach each other's memory, as a rank shares it among more peers: with 4 H200 a
/// gigabyte from each to the next then takes 3.01 ms instead of 3.17; with 384 MB 3.08 (2026-11-22).
constexpr std::size_t default_scratch(const Topology& topology) {
  const bool many = topology.backend != BackendKind::host && topology.peer_access && topology.ranks > 2;
  return std::size_t{many ? 256u : 128u} << 20;
}

/// Reads the settings. Collective: throws Error(mismatch) on all ranks, naming a rank and both texts, if ranks differ in them, in
/// PLAIT_ALGO or in the version of the library.
Settings agree_on_settings(Bootstrap& bootstrap, const CommunicatorOptions& options);

/// Opens this rank's device. Collective. The backend is `options.backend`, else PLAIT_BACKEND, else a GPU target if every rank has a device
/// of its own, else the host. If the devices don't reach each other's memory, or are told not to, symmetric memory lies in host memory.
/// Throws the same Error on all ranks if they ask for different backends, share a device, or lack one.
std::shared_ptr<Backend> open_device(Bootstrap& bootstrap, const CommunicatorOptions& options, const Settings& settings);

/// Later communicators of this thread take the same device by default: one over a part of the ranks numbers them anew. To be called once a
/// communicator stands.
void remember_device(const Backend& backend);

/// Collective.
Topology discover_topology(Bootstrap& bootstrap, const Backend& backend, const Settings& settings);

}  // namespace plait
