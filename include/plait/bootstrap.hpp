// How ranks find each other before they share memory: a few collective calls on small host data.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/language.hpp"

namespace plait {

struct BootstrapHooks;

/// A group of ranks that exchange small host data. Every call except the getters is collective over
/// the group and blocks. It throws
/// - `Error(bootstrap)`, which names the call and the rank, if a rank does not arrive within
///   `timeout()`, has destroyed its object or has given up a call. Ranks that wait in the call then
///   fail too, and later calls fail.
/// - `Error(mismatch)`, which names two ranks and the call that each of them is in, on all ranks if
///   they are in different calls, or in one call with different sizes or roots. The group stays
///   usable.
///
/// One thread of a rank uses an object at a time. Its destructor does not wait for other ranks. The
/// bootstraps that Plait makes belong to the process: in a child made by fork their calls throw
/// `Error(invalid_argument)`, and their destructors do nothing, silently.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  /// Gathers `bytes` bytes from every rank into `out`, in rank order. `out` holds `size() * bytes`
  /// bytes.
  virtual void all_gather(const void* in, void* out, std::size_t bytes) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;

  /// Ranks that pass the same `color` form a new group, ordered by `key`, then by rank. Collective.
  virtual std::unique_ptr<Bootstrap> split(int color, int key) = 0;

  /// Index of this rank among the ranks on its node, and their number. Computed at construction; no
  /// communication.
  int local_rank() const noexcept { return local_rank_; }
  int local_size() const noexcept { return local_size_; }
  /// Number of nodes in the group, and the index of this rank's node in order of first appearance.
  int nodes() const noexcept { return nodes_; }
  int node() const noexcept { return node_; }
  /// The ranks of this group, in its order, as numbered in the group that it was split from. Empty
  /// if it was not split from another group.
  const std::vector<int>& parent_ranks() const noexcept { return parent_ranks_; }

  /// The group of the ranks on this node. Collective. A node is a machine that was booted once, or
  /// what the environment variable `PLAIT_NODE` says (used to test several nodes on one machine).
  std::unique_ptr<Bootstrap> split_by_node() { return split(node_, rank()); }

  /// How long a call waits; zero: without limit. Bootstraps of this library start with
  /// PLAIT_TIMEOUT, all others with 10 minutes.
  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }
  void set_timeout(std::chrono::nanoseconds timeout) noexcept { timeout_ = timeout; }

  // Typed forms.
  template <class T>
  requires std::is_trivially_copyable_v<T> std::vector<T> all_gather(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size()));
    all_gather(&mine, all.data(), sizeof(T));
    return all;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> T broadcast(T value, int root) {
    broadcast(&value, sizeof(T), root);
    return value;
  }

 protected:
  Bootstrap() = default;
  /// Fills in the local ranks and nodes: ranks with equal numbers are on one node. The set-up of an
  /// implementation ends with it. Local.
  void set_nodes(const std::vector<int>& node_of_rank);
  /// `split` calls it on the new group, so that errors can name the ranks as the caller knows them.
  /// Local.
  void set_parent_ranks(std::vector<int> ranks) { parent_ranks_ = std::move(ranks); }
  /// `split_by_node` where every rank knows the node of each. Collective. An implementation that
  /// can make the group without an exchange does.
  virtual std::unique_ptr<Bootstrap> part_of_node(const std::vector<int>& node_of_rank) {
    return split(node_of_rank[static_cast<std::size_t>(rank())], rank());
  }
  /// Throws if the library no longer wants to wait. Implementations call it when a call begins,
  /// every few milliseconds while it waits, and before it gives up.
  void throw_if_interrupted() const {
    if (interrupt_) interrupt_();
  }
  /// The library calls it when it knows by other means that ranks are in different calls, or gone:
  /// later calls must fail, and the destructor must wait for no rank. `rank_lost`: one rank will
  /// never come, so the end of the process must not finalise an MPI that this library initialised.
  /// Local.
  virtual void abandon(const std::string& why, bool rank_lost) noexcept {
    static_cast<void>(why), static_cast<void>(rank_lost);
  }
  /// The name of each rank's node, where there are several and the library has asked for them; else
  /// empty.
  const std::vector<std::string>& node_names() const noexcept { return node_names_; }
  /// What the current call is for, from the outermost purpose to the innermost.
  const std::vector<const char*>& purposes() const noexcept { return purposes_; }

 private:
  friend BootstrapHooks;
  std::function<void()> interrupt_, farewell_;
  std::vector<const char*> purposes_;
  std::vector<int> parent_ranks_;
  std::vector<std::string> node_names_;
  int local_rank_ = 0, local_size_ = 1, nodes_ = 1, node_ = 0;
  std::chrono::nanoseconds timeout_{std::chrono::minutes{10}};
};

/// `ranks` bootstraps in one process, one for each thread. `timeout()` starts with PLAIT_TIMEOUT,
/// or with 10 minutes if that is missing or malformed.
std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int ranks);

}  // namespace plait
