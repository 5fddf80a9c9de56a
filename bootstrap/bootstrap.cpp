#include "plait/bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "bootstrap/support.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

/// A node's name at a fixed size, so that it can be gathered; longer names are told apart by their first bytes.
using NodeName = std::array<char, 256>;

std::string name_this_node() {
  if (const auto name = environment("PLAIT_NODE")) return fmt::format("PLAIT_NODE={}", *name);
  std::array<char, 128> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  // The boot id alone is shared by the containers of a machine, which may not reach each other's memory; the host name alone is often
  // the same on several machines ("localhost").
  return fmt::format("{}@{}", boot, host.data());
}

}  // namespace

void Bootstrap::discover_nodes() {
  NodeName mine{};
  const std::string name = name_this_node();
  std::copy_n(name.data(), std::min(name.size(), mine.size()), mine.data());

  const std::vector<NodeName> names = all_gather(mine);
  std::vector<NodeName> nodes;  // in order of first appearance
  for (const NodeName& each : names) {
    if (std::find(nodes.begin(), nodes.end(), each) == nodes.end()) nodes.push_back(each);
  }
  nodes_ = static_cast<int>(nodes.size());
  node_ = static_cast<int>(std::find(nodes.begin(), nodes.end(), mine) - nodes.begin());
  local_rank_ = static_cast<int>(std::count(names.begin(), names.begin() + rank(), mine));
  local_size_ = static_cast<int>(std::count(names.begin(), names.end(), mine));
}

namespace detail {

Deadline::Deadline(std::chrono::nanoseconds limit) {
  // A limit beyond a century, which might overflow the clock, is none.
  constexpr std::chrono::hours longest{24 * 365 * 100};
  if (limit > std::chrono::nanoseconds::zero() && limit < longest) end_ = Clock::now() + limit;
}

int Deadline::milliseconds_left(int most) const {
  if (!end_) return most;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, most));
}

void Backoff::pause() {
  constexpr unsigned spins = 100, yields = 2000;
  if (polls_ < spins + yields) ++polls_;
  if (polls_ < spins) return;
  if (polls_ < spins + yields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::string list_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string in_seconds(std::chrono::nanoseconds time) { return fmt::format("{:.4g} s", std::chrono::duration<double>(time).count()); }

void check_all_gather(int rank, int size, const void* in, const void* out, std::size_t bytes) {
  if (bytes > 0 && (in == nullptr || out == nullptr)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::all_gather: rank {} passed a null pointer with {} bytes", rank, bytes));
  }
  if (bytes > std::numeric_limits<std::size_t>::max() / static_cast<std::size_t>(size)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::all_gather: rank {} passed {} bytes, too many for {} ranks", rank, bytes, size));
  }
}

void check_broadcast(int rank, int size, const void* data, std::size_t bytes, int root) {
  if (bytes > 0 && data == nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("Bootstrap::broadcast: rank {} passed a null pointer with {} bytes", rank, bytes));
  }
  if (root < 0 || root >= size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::broadcast: rank {} passed root {}, but there are {} ranks", rank, root, size));
  }
}

std::vector<int> split_members(const std::vector<SplitKey>& keys, int rank) {
  std::vector<int> members;
  for (std::size_t peer = 0; peer < keys.size(); ++peer) {
    if (keys[peer].color == keys[static_cast<std::size_t>(rank)].color) members.push_back(static_cast<int>(peer));
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return keys[static_cast<std::size_t>(a)].key < keys[static_cast<std::size_t>(b)].key; });
  return members;
}

}  // namespace detail
}  // namespace plait
