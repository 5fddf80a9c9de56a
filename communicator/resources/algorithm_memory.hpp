// The memory that algorithms keep for the life of a communicator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/nodes/stand_ins.hpp"
#include "symm_mem/own_memory.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// The most scratch memory that a communicator has from the start, if the rest comes with the calls
/// that need it.
constexpr std::size_t base_scratch = std::size_t{32} << 20;

/// Where the memory of each algorithm lies: in symmetric windows, and in a block of counters that
/// only this rank uses.
///
/// A *share* is the memory that one family of algorithms keeps for itself, or that several
/// algorithms use under one name. The first window, the *base*, exists from the start. If
/// `Topology::base_limit` is 0, the base holds all shares. Otherwise it holds the shares that
/// messages need, because nothing can be allocated in a call that only two ranks make, and the
/// smallest others as long as they fit. Each of the rest is a window by itself.
struct MemoryLayout {
  struct Place {
    std::size_t window = 0;                              // holds scratch and signals
    std::size_t scratch = 0, signals = 0, counters = 0;  // offsets in bytes
  };
  struct Places {
    Place own;
    std::optional<Place> shared, reserved;  // Algorithm::shared, shared_once_reserved
  };
  std::vector<std::size_t> windows{0};  // bytes of each, the base first
  std::size_t local = 0;                // bytes of the counters
  std::vector<Places> places;           // by the number of the algorithm

  MemoryLayout(const Topology& topology, const std::vector<const Algorithm*>& algorithms);
  std::size_t bytes() const;
};

/// The `Topology::scratch_limit` with which all algorithms together need at most `limit` bytes:
/// `wished` (by default `limit`), or somewhat less if the shares then sum to more than `limit`.
/// Throws Error(invalid_argument) if not even the least shares fit.
std::size_t scratch_within(std::size_t limit, Topology topology,
                           const std::vector<const Algorithm*>& algorithms,
                           std::optional<std::size_t> wished = std::nullopt);

/// Symmetric windows and one private block of counters, divided among the algorithms.
///
/// The base is allocated at creation, each other window in the first call whose algorithm needs it
/// (`of`). All ranks choose the same algorithms, so they come to that in the same call, and meet
/// there.
///
/// On the host target the base holds everything, and its pages are committed when launches touch
/// them. So a communicator that is never used costs only addresses, and one that launches few
/// blocks commits little of its memory. Before a launch touches pages that no launch has touched,
/// its rank checks that there is room for them on all ranks that share the same memory.
class AlgorithmMemory {
 public:
  /// Collective over a node (`agree_here`). `token`: as for `SymmetricHeap::allocate_here`.
  /// `in_calls`: the bootstrap through which ranks meet inside a call; it outlives this object.
  AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap, const Nodes& nodes,
                  std::uint64_t token, Bootstrap& in_calls, SymmetricHeap& heap,
                  const Topology& topology, const std::vector<const Algorithm*>& algorithms);

  /// The memory for a launch of `blocks` blocks. Collective unless `has_all_of(algorithm)`; then
  /// all ranks throw the same Error(out_of_memory) if one runs out. Otherwise only this rank throws
  /// it, if there is no room for the pages that the launch touches. In both cases the caller breaks
  /// the communicator, because the other ranks count on the call.
  const AlgorithmGrant& of(std::size_t algorithm, unsigned blocks) {
    if (blocks > room_for_[algorithm].blocks) make_room(algorithm, blocks);
    return grants_[algorithm];
  }
  /// The same memory, once `of` has been called for the launch.
  const AlgorithmGrant& granted(std::size_t algorithm) const { return grants_[algorithm]; }
  /// True if all windows that the algorithm needs are allocated.
  bool has_all_of(std::size_t algorithm) const noexcept;
  /// Allocates all windows, and from then on also grants `Algorithm::shared_once_reserved`.
  /// Collective over `bootstrap`. If it fails, all ranks throw the same error and keep the windows
  /// that they have by then. `what` names the caller in messages.
  void reserve(Bootstrap& bootstrap, const char* what);
  /// How often memory has been granted: what was granted before may be elsewhere now.
  std::size_t grants() const noexcept { return granted_; }
  /// Bytes of all windows and counters, allocated or not, and the committed part of them.
  std::size_t bytes() const noexcept { return layout_.bytes(); }
  std::size_t committed() const;
  /// The channels between nodes, where there are several.
  const ChannelStandIns& channels() const { return *between_nodes_; }
  /// As `LaunchSetting` has them.
  const std::int32_t* ranks_in_order() const { return ranks_in_order_.get(); }
  /// The word that is set by the first spin of a kernel that expires.
  std::uint32_t* claimed() const { return counters_.get(); }

 private:
  void make_room(std::size_t algorithm, unsigned blocks);
  void find_room(std::size_t algorithm, unsigned blocks);
  void allocate(std::size_t window, Bootstrap& bootstrap, const char* what);
  void make_stand_ins(const Nodes& nodes, const ChannelMemory& channels, int rank,
                      const std::vector<const Algorithm*>& algorithms);
  void grant();

  /// The room for an algorithm's launches: those of up to `blocks` blocks are known to have it. The
  /// algorithm's `bytes` are divided equally among `most` blocks.
  struct Room {
    unsigned blocks, most;
    std::size_t bytes;
  };
  std::shared_ptr<Backend> backend_;
  Bootstrap& in_calls_;
  MemoryLayout layout_;
  std::vector<Room> room_for_;
  std::map<std::uint64_t, std::size_t> ranks_under_;  // number of ranks, by the memory limit's id
  std::vector<std::string> names_;                    // of the algorithms
  // The first one is `claimed`. They outlive the windows, whose destructors wait for the device.
  DeviceMemory<std::uint32_t> counters_;
  DeviceMemory<std::int32_t> ranks_in_order_;  // null on several nodes
  std::optional<ChannelStandIns> between_nodes_;
  std::optional<MemoryLayout::Place> channels_;   // that it stands in for
  std::vector<std::shared_ptr<Window>> windows_;  // null: not allocated yet
  std::vector<AlgorithmGrant> grants_;
  std::size_t granted_ = 0;
  bool is_reserved_ = false;
};

}  // namespace plait
