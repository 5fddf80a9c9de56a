// Ranks that are threads of one process. A call deposits a copy of the rank's data in the group and waits for all ranks; then each rank
// reads what it needs from the deposits.
#include <fmt/format.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "bootstrap/support.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

/// One rank's part in a call.
struct Deposit {
  const char* call = "";
  std::size_t bytes = 0;
  int root = 0;
  std::vector<std::byte> data;  // `bytes` bytes, or none where nobody reads this rank's

  std::string describe() const { return fmt::format("{} of {} bytes with root {}", call, bytes, root); }
  bool matches(const Deposit& other) const { return std::strcmp(call, other.call) == 0 && bytes == other.bytes && root == other.root; }
};

/// What the ranks share. All of it is guarded by the mutex, but for the deposits of a finished round, which are only read.
class Group {
 public:
  explicit Group(int size) : size_(size), arrived_(to_index(size)), left_(to_index(size)) {
    for (auto& round : rounds_) round.resize(to_index(size));
  }
  int size() const noexcept { return size_; }

  /// Waits until every rank has made its deposit for this call, and returns them in rank order.
  ///
  /// The result may be read until this rank's next call but one: two sets of deposits alternate, and round k+2 only begins when all
  /// ranks have arrived in round k+1, that is when they have read round k. So no second barrier is needed.
  /// `look` is called every now and then by a rank that waits; if it throws, the rank has not come.
  const std::vector<Deposit>& exchange(int rank, Deposit mine, std::chrono::nanoseconds timeout, const std::function<void()>& look);

  /// This rank will not come again; whoever waits for it fails.
  void leave(int rank) {
    const std::scoped_lock lock(mutex_);
    left_[to_index(rank)] = true;
    changed_.notify_all();
  }

  /// The new group of `members` ranks with this color in a rank's `split`-th call of split; the first to ask creates it.
  std::shared_ptr<Group> child(std::uint64_t split, int color, int members);

  static std::size_t to_index(int rank) { return static_cast<std::size_t>(rank); }

 private:
  struct Child {
    std::shared_ptr<Group> group;
    int taken = 0;
  };

  void wait_for_round(std::unique_lock<std::mutex>& lock, int rank, const char* call, std::uint64_t round, std::chrono::nanoseconds timeout,
                      const std::function<void()>& look);
  void look_around(std::unique_lock<std::mutex>& lock, int rank, std::uint64_t round, const std::function<void()>& look);
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
  std::vector<bool> arrived_;       // in the current round
  std::vector<bool> left_;          // for ever
  std::string failure_;             // why no call will ever succeed again
  std::vector<Deposit> rounds_[2];  // round k uses k % 2
  std::map<std::pair<std::uint64_t, int>, Child> children_;
};

const std::vector<Deposit>& Group::exchange(int rank, Deposit mine, std::chrono::nanoseconds timeout, const std::function<void()>& look) {
  const char* call = mine.call;
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: {}", call, rank, failure_));
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
    wait_for_round(lock, rank, call, round, timeout, look);
  }
  return deposits;
}

void Group::wait_for_round(std::unique_lock<std::mutex>& lock, int rank, const char* call, std::uint64_t round,
                           std::chrono::nanoseconds timeout, const std::function<void()>& look) {
  const detail::Deadline deadline(timeout);
  const auto settled = [&] { return round_ != round || !failure_.empty() || !ranks_where(left_, true).empty(); };
  for (bool waits = true; waits;) {
    const int most = deadline.milliseconds_left(static_cast<int>(detail::interrupt_period.count()));
    waits = !changed_.wait_for(lock, std::chrono::milliseconds(most), settled) && !deadline.expired();
    if (round_ != round) return;  // first: a rank may leave as soon as the round is finished
    look_around(lock, rank, round, look);
  }
  if (round_ != round) return;
  if (failure_.empty()) {
    const std::vector<int> left = ranks_where(left_, true);
    failure_ = left.empty() ? fmt::format("{} did not arrive at {} within {}", detail::list_ranks(ranks_where(arrived_, false)), call,
                                          detail::in_seconds(timeout))
                            : fmt::format("{} left the group (the Bootstrap was destroyed)", detail::list_ranks(left));
    changed_.notify_all();
  }
  throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: {}", call, rank, failure_));
}

void Group::look_around(std::unique_lock<std::mutex>& lock, int rank, std::uint64_t round, const std::function<void()>& look) {
  std::exception_ptr stop;
  lock.unlock();
  try {
    look();
  } catch (...) {
    stop = std::current_exception();
  }
  lock.lock();
  if (!stop) return;
  if (round_ == round && failure_.empty()) {
    arrived_[to_index(rank)] = false;
    --arrivals_;
  }
  std::rethrow_exception(stop);
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
  ThreadBootstrap(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {
    discover_nodes();
    ready_ = true;
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
  void barrier() override { exchange("Bootstrap::barrier", nullptr, 0, 0); }
  std::unique_ptr<Bootstrap> split(int color, int key) override;

 private:
  /// As `Group::exchange`, and throws `Error(mismatch)`, on all ranks, if they are not in the same call. `data` may be null.
  const std::vector<Deposit>& exchange(const char* call, const void* data, std::size_t bytes, int root);

  Origin origin_;
  std::shared_ptr<Group> group_;
  int rank_;
  bool ready_ = false;
  std::uint64_t splits_ = 0;
};

const std::vector<Deposit>& ThreadBootstrap::exchange(const char* call, const void* data, std::size_t bytes, int root) {
  origin_.require(call, "bootstrap");
  Deposit mine{call, bytes, root, {}};
  const Deposit reference = mine;
  if (data != nullptr) {
    const auto* first = static_cast<const std::byte*>(data);
    mine.data.assign(first, first + bytes);
  }
  throw_if_interrupted();
  const std::vector<Deposit>& all = group_->exchange(rank_, std::move(mine), timeout(), [this] { throw_if_interrupted(); });
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer].matches(reference)) continue;
    throw Error(ErrorCode::mismatch,
                fmt::format("{}: rank {} is in {}, rank {} in {}", call, rank_, reference.describe(), peer, all[peer].describe()));
  }
  return all;
}

void ThreadBootstrap::all_gather(const void* in, void* out, std::size_t bytes) {
  detail::check_all_gather(rank_, size(), in, out, bytes);
  auto* place = static_cast<std::byte*>(out);
  if (!ready_) {
    // Only discover_nodes() comes here. All ranks share the process and thus the node name, so nobody needs to be asked, and one thread
    // can make the bootstraps of all ranks.
    for (int peer = 0; peer < size(); ++peer, place += bytes) std::memcpy(place, in, bytes);
    return;
  }
  for (const Deposit& deposit : exchange("Bootstrap::all_gather", in, bytes, 0)) {
    if (bytes > 0) std::memcpy(place, deposit.data.data(), bytes);
    place += bytes;
  }
}

void ThreadBootstrap::broadcast(void* data, std::size_t bytes, int root) {
  detail::check_broadcast(rank_, size(), data, bytes, root);
  const auto& all = exchange("Bootstrap::broadcast", rank_ == root ? data : nullptr, bytes, root);
  if (rank_ != root && bytes > 0) std::memcpy(data, all[Group::to_index(root)].data.data(), bytes);
}

std::unique_ptr<Bootstrap> ThreadBootstrap::split(int color, int key) {
  const detail::SplitKey mine{color, key};
  std::vector<detail::SplitKey> keys(Group::to_index(size()));
  const auto& all = exchange("Bootstrap::split", &mine, sizeof mine, 0);
  for (std::size_t peer = 0; peer < keys.size(); ++peer) std::memcpy(&keys[peer], all[peer].data.data(), sizeof mine);

  const std::vector<int> members = detail::split_members(keys, rank_);
  int place = 0;
  while (members[Group::to_index(place)] != rank_) ++place;
  auto group = group_->child(splits_++, color, static_cast<int>(members.size()));
  auto result = std::make_unique<ThreadBootstrap>(std::move(group), place);
  result->set_timeout(timeout());
  return result;
}

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int ranks) {
  if (ranks < 1) {
    throw Error(ErrorCode::invalid_argument, fmt::format("make_thread_bootstraps: {} ranks, but at least 1 is needed", ranks));
  }
  auto group = std::make_shared<Group>(ranks);
  std::vector<std::unique_ptr<Bootstrap>> result;
  result.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) result.push_back(std::make_unique<ThreadBootstrap>(group, rank));
  return result;
}

}  // namespace plait
