// One call of a LinkBootstrap: the messages of all ranks, and the ranks that fail to send one.
#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <span>

#include "bootstrap/link_bootstrap.hpp"

namespace plait::detail {
namespace {

/// How long a rank that has waited in vain still waits for the others to say so, too.
constexpr std::chrono::milliseconds expiry_grace{150};

}  // namespace

/// One rank's side of a call.
class LinkBootstrap::Exchange {
 public:
  Exchange(LinkBootstrap& group, const CallId& call)
      : group_(group),
        call_(call),
        ids_(index(group.size())),
        data_(ids_.size()),
        expired_(ids_.size()),
        deadline_(group.timeout()) {
    ids_[index(group.rank_)] = call;
  }
  std::vector<Bytes> run(std::span<const std::byte> mine) {
    try {
      sent_ = group_.send(MessageHead::Type::call, group_.sequence_, call_, mine);
      Backoff backoff(bootstrap_pace);
      auto looked = std::chrono::steady_clock::now();
      for (take(); !is_complete(); take()) {
        examine();
        if (const auto now = std::chrono::steady_clock::now(); now - looked >= interrupt_period) {
          look();
          looked = now;
        }
        backoff.pause();
      }
    } catch (const Error& error) {
      if (group_.failure_.empty()) group_.give_up(error.what(), group_.sequence_);  // of the link
      throw;
    }
    if (const auto disagreement = find_disagreement(ids_))
      throw Error(ErrorCode::mismatch, *disagreement);
    throw_if_given_up();  // this rank may have come too late
    return std::move(data_);
  }

 private:
  /// Takes the messages of this call that have come, and those that ranks send instead.
  void take() {
    group_.link_->advance();
    left_.clear();
    for (int rank = 0; rank < group_.size(); ++rank) {
      while (!ids_[index(rank)]) {
        const auto head = group_.link_->next(group_.context_, group_.in_link(rank));
        if (!head || head->type == MessageHead::Type::failed) break;
        if (head->type == MessageHead::Type::left) {
          left_.push_back(rank);
          break;
        }
        Message message = group_.link_->take(group_.context_, group_.in_link(rank));
        if (head->type == MessageHead::Type::expired) {
          expired_[index(rank)] = head->sequence;
        } else if (head->sequence == group_.sequence_) {
          // A message of an earlier call is dropped, because this rank has left that call.
          ids_[index(rank)] = head->call;
          data_[index(rank)] = std::move(message.data);
        }
      }
    }
  }
  void look() {
    try {
      group_.throw_if_interrupted();
    } catch (const std::exception& error) {
      if (group_.failure_.empty())
        group_.give_up(gave_up(group_.rank_, error.what()), group_.sequence_);
      throw;
    }
  }
  /// Throws if the call can no longer be completed.
  void examine() {
    throw_if_given_up();
    if (!left_.empty()) {
      look();
      group_.fail(ErrorCode::bootstrap, call_, has_left(left_, group_.node_names()));
    }
    const auto disagreement = find_disagreement(ids_);
    if (disagreement && !differs_) differs_.emplace(mismatch_grace);
    if (disagreement && (differs_->expired() || deadline_.expired())) {
      look();
      throw_mismatch(*disagreement);
    }
    throw_if_ended();
    if (deadline_.expired()) {
      look();
      wait_for_witnesses();
    }
  }
  std::optional<Error> failure_of(int rank) {
    if (rank == group_.rank_) return std::nullopt;
    return group_.link_->find_failure(group_.context_, group_.in_link(rank), group_.sequence_);
  }
  void throw_if_given_up() {
    for (int rank = 0; rank < group_.size(); ++rank) {
      const auto failure = failure_of(rank);
      if (!failure) continue;
      look();  // may know a better reason
      if (failure->code() == ErrorCode::mismatch) throw_mismatch(failure->what());
      group_.fail(ErrorCode::bootstrap, call_, failure->what());
    }
  }
  /// Not all ranks have come, so the group is not in order any more.
  [[noreturn]] void throw_mismatch(const std::string& disagreement) {
    group_.give_up(disagreement, group_.sequence_, ErrorCode::mismatch);
    throw Error(ErrorCode::mismatch, disagreement);
  }
  /// Time is over. A rank that waits in an earlier call, for one that has stopped between its
  /// messages, is not missing. It says so.
  void wait_for_witnesses() {
    group_.send(MessageHead::Type::expired, group_.sequence_, call_, {});
    const Deadline last(expiry_grace);
    Backoff backoff(bootstrap_pace);
    for (take(); !last.expired(); take()) backoff.pause();
    if (is_complete()) return;
    std::set<int> silent;
    for (const int rank : missing()) {
      if (const auto failure = failure_of(rank))
        group_.fail(ErrorCode::bootstrap, call_, failure->what());
      if (!expired_[index(rank)]) silent.insert(rank);
    }
    // A rank that is stopped after its own message does not take this rank's.
    for (const Sent& sent : sent_) {
      if (!expired_[index(sent.peer)]) silent.insert(sent.peer);
    }
    if (silent.empty()) {  // all missing ranks wait, too
      const std::vector<int> all = all_missing();
      silent.insert(all.begin(), all.end());
    }
    // Others may be silent because of a rank that is out of action: a rank that waits for it in
    // MPI_Comm_idup can't say so.
    if (std::any_of(silent.begin(), silent.end(), [&](int rank) { return is_out(rank); }))
      std::erase_if(silent, [&](int rank) { return !is_out(rank); });
    group_.fail(ErrorCode::bootstrap, call_,
                not_arrived({silent.begin(), silent.end()}, name_of(call_.kind), group_.timeout(),
                            group_.node_names()));
  }
  /// Throws if the process of a missing rank has ended, whatever the deadline.
  void throw_if_ended() {
    if (!lost_.is_time()) return;
    const std::vector<int> silent = all_missing();
    const auto lost = lost_.among(
        silent, [&](int rank) { return group_.link_->has_ended(group_.in_link(rank)); });
    if (lost.empty()) return;
    look();  // may know a better reason
    group_.fail(ErrorCode::bootstrap, call_,
                ended_before(lost, name_of(call_.kind), group_.node_names()));
  }
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (!ids_[index(rank)]) ranks.push_back(rank);
    }
    return ranks;
  }
  /// The missing ranks, and those that have not taken this rank's message.
  std::vector<int> all_missing() const {
    std::vector<int> ranks = missing();
    for (const Sent& sent : sent_) {
      if (ids_[index(sent.peer)]) ranks.push_back(sent.peer);
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  bool is_out(int rank) const { return group_.link_->is_out(group_.in_link(rank)); }
  bool is_complete() {
    std::erase_if(sent_, [&](const Sent& sent) { return group_.link_->is_sent(sent.message); });
    return sent_.empty() && missing().empty();
  }

  LinkBootstrap& group_;
  const CallId& call_;
  std::vector<Sent> sent_;  // not taken yet
  std::vector<std::optional<CallId>> ids_;
  std::vector<Bytes> data_;
  std::vector<std::optional<std::uint64_t>> expired_;  // the call in which a rank's time was over
  std::vector<int> left_;
  Deadline deadline_;
  LostRanks lost_;
  std::optional<Deadline> differs_;  // begins when ranks are found in different calls
};

std::vector<LinkBootstrap::Bytes> LinkBootstrap::exchange(const CallId& call,
                                                          std::span<const std::byte> mine) {
  require_usable(name_of(call.kind));
  ++sequence_;
  return Exchange(*this, call).run(mine);
}

}  // namespace plait::detail
