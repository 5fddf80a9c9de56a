// The ranks are threads of one process. A call deposits a copy of the rank's data in the group and
// waits for all ranks. Then each rank reads the data it needs from the deposits.
#include <fmt/format.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "bootstrap/support.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

using detail::CallKind;

/// One rank's part in a call.
struct Deposit {
  detail::CallId call;
  std::vector<std::byte> data;  // empty if no rank reads it
};

/// The state that the ranks share. The mutex guards all of it except the deposits of a finished
/// round, which are only read.
class Group {
 public:
  explicit Group(int size) : size_(size), arrived_(to_index(size)), left_(to_index(size)) {
    for (auto& round : rounds_) round.resize(to_index(size));
  }
  int size() const noexcept { return size_; }

  /// Waits until every rank has made its deposit for this call. Returns the deposits in rank order.
  ///
  /// The result may be read until this rank's next call but one: two sets of deposits alternate,
  /// and round k+2 begins only when all ranks have arrived in round k+1, so when all have read
  /// round k. So no second barrier is needed. A rank that waits calls `look` now and then. If
  /// `look` throws, this rank has given up, and the others give up, too.
  const std::vector<Deposit>& exchange(int rank, Deposit mine, std::chrono::nanoseconds timeout,
                                       const std::function<void()>& look);

  /// Makes all later calls fail, and those that wait now.
  void abandon(const std::string& why) {
    const std::scoped_lock lock(mutex_);
    fail(ErrorCode::bootstrap, why);
  }

  /// This rank will not come again, so the calls that wait for it fail.
  void leave(int rank) {
    const std::scoped_lock lock(mutex_);
    left_[to_index(rank)] = true;
    changed_.notify_all();
  }

  /// The new group of `members` ranks with this color in the split with this number. The first rank
  /// to ask creates it.
  std::shared_ptr<Group> child(std::uint64_t split, int color, int members);

  static std::size_t to_index(int rank) { return static_cast<std::size_t>(rank); }

 private:
  struct Child {
    std::shared_ptr<Group> group;
    int taken = 0;
  };

  void wait_for_round(std::unique_lock<std::mutex>& lock, int rank, const char* call,
                      std::uint64_t round, std::chrono::nanoseconds timeout,
                      const std::function<void()>& look);
  void look_around(std::unique_lock<std::mutex>& lock, int rank, const std::function<void()>& look);
  std::optional<std::string> disagreement(std::uint64_t round) const;
  void fail(ErrorCode code, const std::string& why);
  static std::vector<int> ranks_where(const std::vector<bool>& flags, bool value) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < flags.size(); ++rank) {
      if (flags[rank] == value) ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;  // finished rounds
  int arrivals_ = 0;
  std::vector<bool> arrived_;                      // in the current round
  std::vector<bool> left_;                         // for ever
  std::string failure_;                            // why no call will ever succeed again
  ErrorCode failure_code_ = ErrorCode::bootstrap;  // for the ranks that wait at that time
  std::vector<Deposit> rounds_[2];                 // round k uses k % 2
  std::map<std::pair<std::uint64_t, int>, Child> children_;
};

const std::vector<Deposit>& Group::exchange(int rank, Deposit mine,
                                            std::chrono::nanoseconds timeout,
                                            const std::function<void()>& look) {
  const char* call = name_of(mine.call.kind);
  std::unique_lock lock(mutex_);
  look_around(lock, rank, look);
  if (!failure_.empty()) {
    look_around(lock, rank, look);  // may know a better reason by now
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {}: an earlier call failed: {}", call, rank, failure_));
  }
  const std::uint64_t round = round_;
  auto& deposits = rounds_[round % 2];
  deposits[to_index(rank)] = std::move(mine);
  arrived_[to_index(rank)] = true;
  if (++arrivals_ == size_) {
    arrivals_ = 0;
    arrived_.assign(to_index(size_), false);
    ++round_;
    changed_.notify_all();
  } else {
    changed_.notify_all();  // the ranks that wait compare the calls
    wait_for_round(lock, rank, call, round, timeout, look);
  }
  return deposits;
}

/// Compares the calls of the ranks that have arrived.
std::optional<std::string> Group::disagreement(std::uint64_t round) const {
  std::vector<std::optional<detail::CallId>> calls(to_index(size_));
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (arrived_[rank]) calls[rank] = rounds_[round % 2][rank].call;
  }
  return detail::find_disagreement(calls);
}

void Group::fail(ErrorCode code, const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = why;
  failure_code_ = code;
  changed_.notify_all();
}

void Group::wait_for_round(std::unique_lock<std::mutex>& lock, int rank, const char* call,
                           std::uint64_t round, std::chrono::nanoseconds timeout,
                           const std::function<void()>& look) {
  const detail::Deadline deadline(timeout);
  std::optional<detail::Deadline> differs;  // begins when ranks are found in different calls
  const auto settled = [&] {
    return round_ != round || !failure_.empty() || !ranks_where(left_, true).empty();
  };
  for (bool waits = true; waits;) {
    const int most = deadline.milliseconds_left(static_cast<int>(detail::interrupt_period.count()));
    waits =
        !changed_.wait_for(lock, std::chrono::milliseconds(most), settled) && !deadline.expired();
    if (round_ != round) return;  // first: a rank may leave as soon as the round is finished
    look_around(lock, rank, look);
    if (round_ != round) return;
    const auto disagreement = this->disagreement(round);
    if (disagreement && !differs) differs.emplace(detail::mismatch_grace);
    if (disagreement && (differs->expired() || !waits)) fail(ErrorCode::mismatch, *disagreement);
    waits = waits && failure_.empty();
  }
  const std::vector<int> left = ranks_where(left_, true);
  if (failure_.empty())
    fail(ErrorCode::bootstrap,
         left.empty() ? detail::not_arrived(ranks_where(arrived_, false), call, timeout)
                      : detail::has_left(left));
  if (failure_code_ == ErrorCode::mismatch) throw Error(failure_code_, failure_);
  look_around(lock, rank, look);  // may know a better reason
  throw Error(failure_code_, fmt::format("{}: rank {}: {}", call, rank, failure_));
}

/// Calls `look` without the lock. If it throws, the others need not wait for this rank.
void Group::look_around(std::unique_lock<std::mutex>& lock, int rank,
                        const std::function<void()>& look) {
  lock.unlock();
  try {
    look();
  } catch (const std::exception& error) {
    lock.lock();
    fail(ErrorCode::bootstrap, detail::gave_up(rank, error.what()));
    throw;
  }
  lock.lock();
}

std::shared_ptr<Group> Group::child(std::uint64_t split, int color, int members) {
  const std::scoped_lock lock(mutex_);
  const auto place = children_.try_emplace({split, color}).first;
  if (!place->second.group) place->second.group = std::make_shared<Group>(members);
  std::shared_ptr<Group> group = place->second.group;
  if (++place->second.taken == members) children_.erase(place);
  return group;
}

class ThreadBootstrap final : public Bootstrap {
 public:
  /// `nodes`: the node of each rank.
  ThreadBootstrap(std::shared_ptr<Group> group, int rank, const std::vector<int>& nodes,
                  std::chrono::nanoseconds timeout)
      : group_(std::move(group)), rank_(rank) {
    set_timeout(timeout);
    set_nodes(nodes);
  }
  ~ThreadBootstrap() override {
    if (origin_.is_here()) group_->leave(rank_);
    else keep_for_ever(std::move(group_));
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_->size(); }

  using Bootstrap::all_gather;
  using Bootstrap::broadcast;
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void barrier() override { exchange({CallKind::barrier, 0, 0, purposes()}, nullptr, 0); }
  std::unique_ptr<Bootstrap> split(int color, int key) override;
  void abandon(const std::string& why, bool) noexcept override { group_->abandon(why); }

 private:
  /// Like `Group::exchange`, and throws `Error(mismatch)` on all ranks if they are not in the same
  /// call. `data` may be null.
  const std::vector<Deposit>& exchange(const detail::CallId& call, const void* data,
                                       std::size_t bytes);

  Origin origin_;
  std::shared_ptr<Group> group_;
  int rank_;
};

const std::vector<Deposit>& ThreadBootstrap::exchange(const detail::CallId& call, const void* data,
                                                      std::size_t bytes) {
  origin_.require(detail::name_of(call.kind), "bootstrap");
  Deposit mine{call, {}};
  if (data != nullptr) {
    const auto* first = static_cast<const std::byte*>(data);
    mine.data.assign(first, first + bytes);
  }
  const std::vector<Deposit>& all =
      group_->exchange(rank_, std::move(mine), timeout(), [this] { throw_if_interrupted(); });
  std::vector<std::optional<detail::CallId>> calls;
  for (const Deposit& deposit : all) calls.emplace_back(deposit.call);
  if (const auto disagreement = detail::find_disagreement(calls))
    throw Error(ErrorCode::mismatch, *disagreement);
  return all;
}

void ThreadBootstrap::all_gather(const void* in, void* out, std::size_t bytes) {
  detail::check_all_gather(rank_, size(), in, out, bytes);
  auto* place = static_cast<std::byte*>(out);
  for (const Deposit& deposit : exchange({CallKind::all_gather, bytes, 0, purposes()}, in, bytes)) {
    if (bytes > 0) std::memcpy(place, deposit.data.data(), bytes);
    place += bytes;
  }
}

void ThreadBootstrap::broadcast(void* data, std::size_t bytes, int root) {
  detail::check_broadcast(rank_, size(), data, bytes, root);
  const auto& all = exchange({CallKind::broadcast, bytes, root, purposes()},
                             rank_ == root ? data : nullptr, bytes);
  if (rank_ != root && bytes > 0) std::memcpy(data, all[Group::to_index(root)].data.data(), bytes);
}

std::unique_ptr<Bootstrap> ThreadBootstrap::split(int color, int key) {
  const detail::SplitKey mine{color, key, node(), detail::draw_number()};
  std::vector<detail::SplitKey> keys(Group::to_index(size()));
  const auto& all = exchange({CallKind::split, sizeof mine, 0, purposes()}, &mine, sizeof mine);
  for (std::size_t peer = 0; peer < keys.size(); ++peer)
    std::memcpy(&keys[peer], all[peer].data.data(), sizeof mine);

  const std::vector<int> members = detail::split_members(keys, rank_);
  int place = 0;
  while (members[Group::to_index(place)] != rank_) ++place;
  auto group = group_->child(keys[0].drawn, color, static_cast<int>(members.size()));
  auto part = std::make_unique<ThreadBootstrap>(std::move(group), place,
                                                detail::nodes_of(keys, members), timeout());
  part->set_parent_ranks(members);
  return part;
}

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int ranks) {
  if (ranks < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make_thread_bootstraps: {} ranks, but at least 1 is needed", ranks));
  }
  std::string failure;  // a communicator's settings report it to all ranks
  const std::chrono::nanoseconds timeout = detail::limit_of_meeting({}, failure);
  const std::vector<int> nodes(static_cast<std::size_t>(ranks));  // all on one
  auto group = std::make_shared<Group>(ranks);
  std::vector<std::unique_ptr<Bootstrap>> result;
  result.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    result.push_back(std::make_unique<ThreadBootstrap>(group, rank, nodes, timeout));
  return result;
}

}  // namespace plait
