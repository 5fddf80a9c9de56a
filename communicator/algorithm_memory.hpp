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
#include "symm_mem/window.hpp"

namespace plait {

/// What a communicator has of scratch memory from the start, at most, where more of it comes with
/// the calls that need it.
constexpr std::size_t base_scratch = std::size_t{32} << 20;

/// Where the memory of each algorithm lies: in symmetric windows, and in a block of counters of the
/// rank's own.
///
/// A *share* is what a family of algorithms keeps for itself, or what several share under a name.
/// The first window, the *base*, is there from the start. Without `Topology::base_limit` it holds
/// all shares. Else it holds those that messages need, as nothing can be allocated for a call that
/// two ranks make alone, and the smallest others as long as they fit. Each of the rest is a window
/// by itself.
struct MemoryLayout {
  struct Place {
    std::size_t window = 0;                              // which holds scratch and signals
    std::size_t scratch = 0, signals = 0, counters = 0;  // offsets in bytes
  };
  struct Places {
    Place own, shared;
    std::optional<Place> reserved;  // Algorithm::shared_once_reserved
  };
  std::vector<std::size_t> windows{0};  // bytes of each, the base first
  std::size_t local = 0;
  std::vector<Places> places;  // of each algorithm

  MemoryLayout(const Topology& topology, const std::vector<const Algorithm*>& algorithms);
  std::size_t bytes() const;
};

/// What algorithms are to take their shares of (`Topology::scratch_limit`), so that all together
/// need `limit` bytes at most: `wished`, which is the limit unless it is named, or somewhat less if
/// their shares sum to more than the limit. Throws Error(invalid_argument) if not even the least
/// shares fit.
std::size_t scratch_within(std::size_t limit, Topology topology,
                           const std::vector<const Algorithm*>& algorithms,
                           std::optional<std::size_t> wished = std::nullopt);

/// Symmetric windows and one private block of counters, divided among the algorithms.
///
/// The base is allocated at creation, each other window by the first call whose algorithm needs it
/// (`of`). All ranks choose alike, so all come to that in the same call, and meet there.
///
/// On the host target the base holds everything, and its pages are committed as launches touch
/// them, so a communicator that is made and never used costs addresses alone, and one that has few
/// blocks commits little of what it may have. Before a launch touches what no launch has before,
/// its rank looks whether there is room for it on all ranks that share the same memory.
class AlgorithmMemory {
 public:
  /// Collective. `in_calls`: by which the ranks meet inside a call; it outlives this object.
  AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap,
                  Bootstrap& in_calls, SymmetricHeap& heap, const Topology& topology,
                  const std::vector<const Algorithm*>& algorithms);

  /// For a launch of `blocks` blocks. Collective if not `has_all_of(algorithm)`; then all ranks
  /// throw the same Error(out_of_memory) if one runs out. Else this rank throws it if there is no
  /// room for the pages that the launch touches. In either case the caller breaks the communicator,
  /// as the other ranks count on the call.
  const AlgorithmGrant& of(std::size_t algorithm, unsigned blocks) {
    if (blocks > room_for_[algorithm].blocks) make_room(algorithm, blocks);
    return grants_[algorithm];
  }
  /// The same once `of` has been called for the launch.
  const AlgorithmGrant& granted(std::size_t algorithm) const { return grants_[algorithm]; }
  /// Whether the windows that an algorithm needs are there.
  bool has_all_of(std::size_t algorithm) const noexcept;
  /// Allocates all windows, and grants what algorithms want once that is done. Collective over
  /// `bootstrap`; all ranks throw the same error, and what they have got by then stays. `what`
  /// names the caller in messages.
  void reserve(Bootstrap& bootstrap, const char* what);
  /// Bytes that it may have, and that it has committed.
  std::size_t bytes() const noexcept { return layout_.bytes(); }
  std::size_t committed() const;
  /// Set by the first spin of a kernel that expires.
  std::uint32_t* claimed() const { return counters_.get(); }

 private:
  struct Deallocate {
    std::shared_ptr<Backend> backend;
    void operator()(std::uint32_t* pointer) const noexcept { backend->deallocate(pointer); }
  };
  void make_room(std::size_t algorithm, unsigned blocks);
  void find_room(std::size_t algorithm, unsigned blocks);
  void allocate(std::size_t window, Bootstrap& bootstrap, const char* what);
  void grant();

  /// What is known of an algorithm: launches of up to `blocks` have had room. All of its `bytes`
  /// belong to `most` blocks, in equal parts.
  struct Room {
    unsigned blocks, most;
    std::size_t bytes;
  };
  std::shared_ptr<Backend> backend_;
  Bootstrap& in_calls_;
  MemoryLayout layout_;
  std::vector<Room> room_for_;
  std::map<std::uint64_t, std::size_t> ranks_under_;  // how many share a limit of memory
  std::vector<std::string> names_;                    // of the algorithms
  std::unique_ptr<std::uint32_t, Deallocate>
      counters_;  // the first one is `claimed`; outlives windows, whose end waits for the device
  std::vector<std::shared_ptr<Window>> windows_;  // null: not there yet
  std::vector<AlgorithmGrant> grants_;
  bool is_reserved_ = false;
};

}  // namespace plait
