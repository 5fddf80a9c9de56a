#include "plait/bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <map>
#include <string>

#include "bootstrap/support.hpp"
#include "core/environment.hpp"
#include "core/process.hpp"
#include "core/process_space.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

std::string node_text() {
  if (const auto name = environment("PLAIT_NODE")) return fmt::format("PLAIT_NODE={}", *name);
  std::array<char, 128> host{};
  ::gethostname(host.data(), host.size() - 1);
  // None is enough alone: several machines often have the same host name ("localhost"), and the
  // containers of a machine share its boot id. Descriptors of memory go over Unix sockets, which
  // reach no other network namespace. Other namespaces (user, PID, mount with its /dev/shm, IPC)
  // don't matter: memory has no name in a file system, and a launcher may give them to each rank.
  return fmt::format("{}@{} net:{}", boot_id(), host.data(), network_space());
}

}  // namespace

void Bootstrap::set_nodes(const std::vector<int>& node_of_rank) {
  const int mine = node_of_rank[static_cast<std::size_t>(rank())];
  std::map<int, int> nodes;  // their numbers, in order of first appearance
  for (const int node : node_of_rank) nodes.try_emplace(node, static_cast<int>(nodes.size()));
  nodes_ = static_cast<int>(nodes.size());
  node_ = nodes.at(mine);
  local_rank_ =
      static_cast<int>(std::count(node_of_rank.begin(), node_of_rank.begin() + rank(), mine));
  local_size_ = static_cast<int>(std::count(node_of_rank.begin(), node_of_rank.end(), mine));
}

namespace detail {

Deadline::Deadline(std::chrono::nanoseconds limit) {
  // A limit of more than a century counts as none, because it might overflow the clock.
  constexpr std::chrono::hours longest{24 * 365 * 100};
  if (limit > std::chrono::nanoseconds::zero() && limit < longest) end_ = Clock::now() + limit;
}

int Deadline::milliseconds_left(int most) const {
  if (!end_) return most;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, most));
}

std::string list_ranks(const std::vector<int>& ranks, NodeNames nodes) {
  const auto list = [](std::span<const int> some) {
    return fmt::format("rank{} {}", some.size() == 1 ? "" : "s", fmt::join(some, ", "));
  };
  if (nodes.empty()) return list(ranks);
  const auto node_of = [&](int rank) -> const std::string& {
    return nodes[static_cast<std::size_t>(rank)];
  };
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    const auto last = std::find_if(first, ranks.end(),
                                   [&](int rank) { return node_of(rank) != node_of(*first); });
    text += fmt::format("{}{} on node {}", text.empty() ? "" : ", ", list({first, last}),
                        node_of(*first));
    first = last;
  }
  return text;
}

void throw_errno(std::string_view call) {
  throw Error(ErrorCode::bootstrap, fmt::format("{}: {}", call, system_text(errno)));
}

std::string in_seconds(std::chrono::nanoseconds time) {
  return fmt::format("{:.4g} s", std::chrono::duration<double>(time).count());
}

void check_all_gather(int rank, int size, const void* in, const void* out, std::size_t bytes) {
  if (bytes > 0 && (in == nullptr || out == nullptr)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::all_gather: rank {} passed a null pointer with {} bytes",
                            rank, bytes));
  }
  if (bytes > std::numeric_limits<std::size_t>::max() / static_cast<std::size_t>(size)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::all_gather: rank {} passed {} bytes, too many for {} ranks",
                            rank, bytes, size));
  }
}

void check_broadcast(int rank, int size, const void* data, std::size_t bytes, int root) {
  if (bytes > 0 && data == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::broadcast: rank {} passed a null pointer with {} bytes",
                            rank, bytes));
  }
  if (root < 0 || root >= size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Bootstrap::broadcast: rank {} passed root {}, but there are {} ranks",
                            rank, root, size));
  }
}

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_gather:
      return "Bootstrap::all_gather";
    case CallKind::broadcast:
      return "Bootstrap::broadcast";
    case CallKind::barrier:
      return "Bootstrap::barrier";
    case CallKind::split:
      return "Bootstrap::split";
  }
  return "another call";
}

CallId::CallId(CallKind call, std::uint64_t data, int from,
               const std::vector<const char*>& purposes)
    : kind(call), root(from), bytes(data) {
  if (purposes.empty()) return;
  purpose = as_text<decltype(purpose)>(purposes.front());
  step = as_text<decltype(step)>(purposes.back());
}

namespace {

/// The facts that tell this call from `other`, and no more.
std::string describe(const CallId& call, const CallId& other) {
  if (call.purpose != other.purpose)
    return call.purpose[0] != 0 ? call.purpose.data() : name_of(call.kind);
  std::string text =
      fmt::format("{} of {} bytes with root {}", name_of(call.kind), call.bytes, call.root);
  if (call.step != other.step)
    text += fmt::format(" ({})", call.step[0] != 0 ? call.step.data() : "for no purpose");
  return text;
}

}  // namespace

std::optional<std::string> find_disagreement(std::span<const std::optional<CallId>> calls) {
  const auto first =
      std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call.has_value(); });
  if (first == calls.end()) return std::nullopt;
  const auto other =
      std::find_if(first, calls.end(), [&](const auto& call) { return call && *call != **first; });
  if (other == calls.end()) return std::nullopt;
  return fmt::format("rank {} is in {}, rank {} in {}", first - calls.begin(),
                     describe(**first, **other), other - calls.begin(), describe(**other, **first));
}

std::string not_arrived(const std::vector<int>& ranks, const char* call,
                        std::chrono::nanoseconds limit, NodeNames nodes) {
  return fmt::format("{} did not arrive at {} within {}", list_ranks(ranks, nodes), call,
                     in_seconds(limit));
}
std::string ended_before(const std::vector<int>& ranks, const char* call, NodeNames nodes) {
  return fmt::format("{} ended before {} arrived at {}", list_ranks(ranks, nodes),
                     ranks.size() == 1 ? "it" : "they", call);
}
std::string has_left(const std::vector<int>& ranks, NodeNames nodes) {
  return fmt::format("{} left the group (the Bootstrap was destroyed)", list_ranks(ranks, nodes));
}
std::string gave_up(int rank, const char* why) {
  return fmt::format("rank {} gave up: {}", rank, why);
}

std::uint64_t draw_number() {
  static std::atomic<std::uint64_t> drawn = 0;
  // No number comes twice in a process, and a child of fork goes on counting where its parent was,
  // but from another number.
  return mixed(process_number() + 0x9e3779b97f4a7c15u * ++drawn);
}

std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
  number = (number ^ number >> 27) * 0x94d049bb133111ebu;
  return number ^ number >> 31;
}

std::chrono::nanoseconds timeout_of_environment() {
  const std::chrono::duration<double> seconds(environment_seconds("PLAIT_TIMEOUT", 600));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
}

std::chrono::nanoseconds limit_of_meeting(std::optional<std::chrono::nanoseconds> wanted,
                                          std::string& failure) {
  try {
    return wanted ? *wanted : timeout_of_environment();
  } catch (const Error& error) {
    failure = error.what();
    return std::chrono::minutes{10};
  }
}

NodeName name_this_node() { return as_text<NodeName>(node_text()); }

std::vector<int> nodes_of(const std::vector<SplitKey>& keys, const std::vector<int>& members) {
  std::vector<int> nodes;
  for (const int member : members) nodes.push_back(keys[static_cast<std::size_t>(member)].node);
  return nodes;
}

std::vector<int> split_members(const std::vector<SplitKey>& keys, int rank) {
  std::vector<int> members;
  for (std::size_t peer = 0; peer < keys.size(); ++peer) {
    if (keys[peer].color == keys[static_cast<std::size_t>(rank)].color)
      members.push_back(static_cast<int>(peer));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return keys[static_cast<std::size_t>(a)].key < keys[static_cast<std::size_t>(b)].key;
  });
  return members;
}

}  // namespace detail
}  // namespace plait
