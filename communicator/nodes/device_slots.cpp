#include "communicator/nodes/device_slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "plait/error.hpp"
#include "transport/registration_trial.hpp"

namespace plait {
namespace {

constexpr const char* what = "connecting the nodes";

/// What PLAIT_NET_GDR says.
enum class Wish : std::int8_t { none = -1, off = 0, on = 1 };

Wish agreed_wish(Bootstrap& bootstrap) {
  Wish wish = Wish::none;
  agree(bootstrap, what,
        [&] { wish = static_cast<Wish>(environment_integer("PLAIT_NET_GDR", -1, 0, 1)); });
  const auto all = on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(wish); });
  const auto other = std::find_if(all.begin(), all.end(), [&](Wish w) { return w != all[0]; });
  const auto name = [](Wish w) {
    return w == Wish::none ? std::string("unset") : std::to_string(static_cast<int>(w));
  };
  if (other != all.end())
    throw Error(ErrorCode::mismatch,
                fmt::format("{}: ranks differ in PLAIT_NET_GDR: rank {} has {}, rank 0 {}", what,
                            other - all.begin(), name(*other), name(all[0])));
  return wish;
}

void require_device_memory(const DeviceInfo& device, const transport::Properties& transport) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::unsupported, why); };
  if (device.backend == BackendKind::host) refuse("the host target has no device memory");
  if (!device.facts.peer_access) refuse("the devices of a node can't reach each other's memory");
  if (!transport.device_memory)
    refuse(fmt::format("{} does not reach device memory", transport.name));
}

/// False if the communicator works without what is missing.
bool is_fatal(ErrorCode code) {
  return code != ErrorCode::unsupported && code != ErrorCode::out_of_memory &&
         code != ErrorCode::no_peer_access;
}

}  // namespace

transport::MemoryKind device_memory_kind(BackendKind backend) {
  switch (backend) {
    case BackendKind::cuda:
      return transport::MemoryKind::cuda;
    case BackendKind::hip:
      return transport::MemoryKind::hip;
    default:
      return transport::MemoryKind::host;
  }
}

std::shared_ptr<Window> make_device_slots(const std::shared_ptr<Backend>& backend,
                                          Bootstrap& bootstrap, const Nodes& nodes,
                                          const ChannelMemory& memory, SymmetricHeap& heap,
                                          transport::Transport& transport) {
  const Wish wish = agreed_wish(bootstrap);
  if (wish == Wish::off) return nullptr;
  const int rank = bootstrap.rank();
  const std::size_t lane_bytes = memory.lane() * memory.bytes,
                    bytes = memory.resources().resources.scratch_bytes;
  const auto lane_at = [&](int owner, int peer) {
    return memory.first(owner, peer) * memory.bytes;
  };
  try {
    agree(bootstrap, what, [&] { require_device_memory(backend->info(), transport.properties()); });
    auto range = heap.allocate_range(bytes, what, Commit::on_touch, [&](int peer) {
      return std::vector<StandIn>{{.offset = lane_at(peer, rank), .bytes = lane_bytes}};
    });
    auto window = std::make_shared<Window>(backend, std::move(range), rank, bytes, 0);
    agree(bootstrap, what, [&] {
      int peer = 0;
      while (nodes.is_here(peer)) ++peer;
      transport::try_to_register(
          transport, std::span(window->peer(peer, lane_at(peer, rank)), lane_bytes),
          std::span(window->local(), bytes), device_memory_kind(backend->info().backend));
    });
    return window;
  } catch (const Error& error) {
    if (wish == Wish::on || is_fatal(error.code())) throw;
    if (rank == 0 && transport.properties().device_memory)
      log::info("chunks between nodes lie in host memory: {}", error.what());
    return nullptr;
  }
}

}  // namespace plait
