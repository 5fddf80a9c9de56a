// Messages between the processes of an MPI job, for all of their bootstraps.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/link.hpp"
#include "bootstrap/mpi/support.hpp"

namespace plait::detail {

/// A communicator of the library. No request is ever posted that a lost rank would have to match.
///
/// It is never freed, because freeing is collective and messages may come as long as the processes
/// live: the last messages of a group say that ranks leave it, and no rank waits for those. All its
/// messages have tag 0; the transport over MPI (transport/mpi/) uses the other tags.
class MpiLink final : public Link {
 public:
  /// Takes `comm` over. `number` is equal on all of its ranks, and no other link has it.
  /// `processes`: the PID of each rank, or 0 where it means nothing here.
  MpiLink(MPI_Comm comm, std::uint64_t number, std::vector<int> processes);

  std::uint64_t number() const noexcept { return number_; }
  MPI_Comm comm() const noexcept { return comm_; }
  int process(int rank) const override { return processes_[static_cast<std::size_t>(rank)]; }
  /// The ranks of `comm` by their numbers in this link. None unless it has them all. Local.
  std::optional<std::vector<int>> ranks_of(MPI_Comm comm) const;

  std::uint64_t send(int to, const MessageHead& head, std::span<const std::byte> data) override;
  bool is_sent(std::uint64_t message) override;
  void advance() override;
  /// True if all messages are sent.
  bool is_idle();

  bool is_open() const override { return !is_finalized(); }
  void opened(Bootstrap& bootstrap) override {
    const std::scoped_lock lock(mutex_);
    groups_.insert(&bootstrap);
  }
  void closed(Bootstrap& bootstrap) noexcept override {
    const std::scoped_lock lock(mutex_);
    groups_.erase(&bootstrap);
  }
  /// On behalf of all groups that exist.
  void say_farewell();
  void lose_rank() noexcept override { detail::lose_rank(); }

 private:
  struct Outgoing {
    std::uint64_t number;
    std::vector<std::byte> bytes;
    MPI_Request request;
  };
  struct Incoming {
    std::vector<std::byte> bytes;
    MPI_Request request;
    bool done;
  };

  void receive();

  MPI_Comm comm_;
  std::uint64_t number_;
  std::vector<int> processes_;
  std::uint64_t sends_ = 0;
  std::deque<Outgoing> outgoing_;
  std::map<int, std::deque<Incoming>> incoming_;  // in the order in which they were sent
  std::set<Bootstrap*> groups_;
};

/// The links of this process.
class Links {
 public:
  static Links& instance();
  /// Takes ownership of the link.
  MpiLink& add(std::unique_ptr<MpiLink> link);
  MpiLink* find(std::uint64_t number);
  /// `link` as what it is; null if it is none of these.
  MpiLink* find(const Link& link);
  /// The numbers of the oldest links that have all ranks of `comm`, at most `most`.
  std::vector<std::uint64_t> covering(MPI_Comm comm, std::size_t most);
  /// The PIDs of the ranks of `comm`, as a link that has them all knows them. Empty if there is no
  /// such link.
  std::vector<int> processes_of(MPI_Comm comm);
  void say_farewell();
  /// Lets messages go out for a moment. True if all have gone.
  bool flush();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<MpiLink>> links_;
};

}  // namespace plait::detail
