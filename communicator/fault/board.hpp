// A page of host memory per rank that all ranks of the node can read: which ranks are alive, and in
// which call each is. After a call has broken, the ranks read here which rank is missing.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "communicator/fault/call_log.hpp"
#include "communicator/fault/refused_numbers.hpp"
#include "communicator/fault/verdict.hpp"
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"
#include "symm_mem/own_memory.hpp"

namespace plait {

class Board {
 public:
  /// Collective over a node (`agree_here`). `nodes` outlives this object. `token`: as for
  /// `SymmetricHeap::allocate_here`. `processes`: the PIDs of all ranks.
  Board(Bootstrap& bootstrap, const Nodes& nodes, std::uint64_t token,
        const std::vector<std::int32_t>& processes);

  /// Notes that this rank has enqueued call number `sequence`, one after the last. Costs a few
  /// stores; peers may read at any moment.
  void publish(std::uint64_t sequence, const Signature& signature);
  /// The same for this rank's end of the next message to, or from, `peer`.
  void publish_message(int peer, bool sends, const Signature& signature);

  /// Publishes, in the place of a call, that this rank has refused it. `sequence`: its number, if
  /// `numbers` has a collective. At most 300 characters of `why` are kept.
  void publish_refused(const RefusedNumbers& numbers, std::uint64_t sequence, std::string_view why);
  /// Why the rank has refused a call with this signature: ": " and the reason. Empty if it has
  /// refused others since.
  std::string why_refused(int rank, const Signature& signature) const;
  /// True from a rank's refusal until `compare` has found that the others, as far as this rank
  /// compares itself with them, have refused that call, too. Costs a load.
  bool refusal_is_pending() const noexcept {
    return refused_by_all_->load(std::memory_order_acquire) !=
           settled_refusals_.load(std::memory_order_relaxed);
  }

  /// Where this rank and another disagree: in a collective, or in a message between them.
  struct Disagreement : CallLogs::Difference {
    enum class Kind { collective, sent, received } kind;  // by this rank
    int rank;                                             // the other one
  };
  /// Compares the calls that this rank and its peers have published since the last comparison.
  /// Costs a few loads per peer. One thread at a time.
  std::optional<Disagreement> compare();

  using State = RankState;
  /// Announces this rank's state. Only the first state other than `working` is kept. `code` and
  /// `reason`, of which at most 500 characters are kept, go with `aborted`.
  void announce(State state, ErrorCode code = {}, std::string_view reason = {}) noexcept;
  State state(int rank) const noexcept;
  Error reason(int rank) const;
  /// As `departure_of` the rank's state.
  std::string_view departure(int rank) const noexcept { return departure_of(state(rank)); }

  /// Publishes where this rank waits in another communicator, before its state says that it has
  /// heard of a timeout in this one. At most 300 characters are kept.
  void say_elsewhere(std::string_view where) noexcept;
  std::string elsewhere(int rank) const;
  /// The ranks without which this one's last call can't end: they have not made it.
  std::vector<int> behind() const;

  /// Publishes where a kernel of this rank was waiting when it gave up. The first record is kept.
  void show(const DiagnosticRecord& record) noexcept;
  std::optional<DiagnosticRecord> record(int rank) const noexcept;

  // Between nodes there is no common page. Ranks send each other news of theirs, and `hear` puts
  // them into a copy of the page.
  /// This rank's page, for ranks of other nodes; empty if nothing has changed but calls since the
  /// last time.
  std::vector<std::byte> news();
  /// The calls that this rank has made since the last time, as many as fit; empty if none. For one
  /// rank of another node, which compares them with its own.
  std::vector<std::byte> call_news();
  /// False if this rank has sent no message since the last time that this was asked.
  bool has_message_news() noexcept { return has_sent_.exchange(false); }
  /// The same for messages to `peer`, a rank of another node, which compares them with those that
  /// it receives.
  std::vector<std::byte> message_news(int peer);
  /// The next call that this rank has refused, for all ranks of other nodes; empty if there is
  /// none.
  std::vector<std::byte> refusal_news();
  /// Takes what the rank's `news`, `call_news`, `message_news` or `refusal_news` have given. One
  /// thread at a time.
  void hear(int rank, std::span<const std::byte> news);
  /// The connection to a rank of another node is gone.
  void lose(int rank) noexcept;

  BoardSnapshot snapshot(const std::vector<std::string>& algorithms) const;

  /// Publishes a verdict and returns the one that counts: the first of any rank. So all ranks name
  /// one culprit, also those that decide when the board has moved on.
  Verdict settle(const Verdict& verdict) noexcept;
  std::optional<Verdict> settled() const noexcept;

  /// False once the rank's process has ended. Always true where that can't be seen: in another
  /// container's space of process numbers.
  bool is_alive(int rank) const;
  /// As RankSnapshot::is_lost.
  bool is_lost(int rank) const { return !is_alive(rank) && state(rank) == State::working; }
  /// The last call of this rank that can't end because `rank` has left before its part of it: "rank
  /// 0 has made call 11, barrier of 0 u8 elements, by barrier", "rank 0 receives message 3 from it,
  /// ...". None: no call is known to wait for that rank.
  std::optional<std::string> waits_in_vain_for(int rank,
                                               const std::vector<std::string>& algorithms) const;
  /// "rank 2 (process 4711, which has ended): last call 17, barrier of 0 u8 elements, sum, by
  /// barrier; messages: 3 to and 2 from rank 0".
  std::string describe(int rank, const std::vector<std::string>& algorithms) const;
  /// Messages that peers of this node have sent to this rank and that it has not received: "2 from
  /// rank 0, 1 from rank 3"; empty if there are none.
  std::string left_over() const;
  /// Messages to this rank of which sender and receiver have called different numbers: "rank 0 has
  /// sent 3, and 2 are received"; empty if there are none.
  std::string apart() const;
  /// Collectives that the rank has enqueued.
  std::uint64_t calls(int rank) const noexcept;
  int ranks() const noexcept { return static_cast<int>(processes_.size()); }
  /// Memory for CallBootstrap, by rank.
  std::vector<void*> desks() const;

 private:
  struct Page;
  Page& page(int rank) const;
  /// The copy of the page of a rank of another node, which is about to be written.
  Page& heard(int rank);
  std::byte* new_copy();
  static std::size_t desk_offset(int ranks);  // in a rank's memory
  using MessageLog = CallLog<256>;
  /// The messages that rank `owner` has sent to, or received from, `peer`. One of the two is a rank
  /// of this node, and what is known of others are their messages with this rank.
  MessageLog& messages(int owner, bool sends, int peer) const;
  MessageLog& own_messages(bool sends, int peer);
  /// Nothing is known of the rank but its number.
  bool is_silent(int rank) const { return address(rank) == silence_; }
  void hear_refusal(int rank, std::span<const std::byte> bytes);
  /// Compares this rank's collectives with those that another one has refused, of which it hears
  /// nothing else.
  std::optional<Disagreement> compare_refused(int rank, bool& pending) const;
  /// "; messages: 3 to and 2 from rank 0, 1 to rank 4"; empty if there were none.
  std::string describe_messages(int rank) const;

  std::byte* address(int rank) const {
    return pages_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }

  std::shared_ptr<SymmetricRange> range_;
  /// Of a rank of another node: what this rank has heard of it, from the first time on. Ranks that
  /// are threads share `range_`, but hear at different times, and some hear of calls while others
  /// don't.
  std::unique_ptr<std::atomic<std::byte*>[]> pages_;
  std::shared_ptr<Backend> host_;
  std::vector<DeviceMemory<std::byte>> copies_;
  std::byte* silence_;  // the page of ranks that were not heard of
  const Nodes& nodes_;
  int rank_;
  struct Told {  // to ranks of other nodes
    State state = State::working;
    bool has_record = false, has_verdict = false;
    std::uint64_t calls = 0;
    friend bool operator==(const Told&, const Told&) = default;
  } told_;
  std::vector<std::uint64_t> told_messages_;  // to each rank
  /// Whether this rank has exchanged messages with each; and since the last time that it told.
  std::unique_ptr<std::atomic<bool>[]> exchanges_;
  std::atomic<bool> has_sent_ = false;
  std::uint64_t told_refusals_ = 0;
  std::uint64_t first_kept_refusal_ = 1;             // of those in the page
  std::atomic<std::uint64_t>* refused_by_all_;       // in the page of the node's first rank
  std::atomic<std::uint64_t> settled_refusals_ = 0;  // of these, those that don't concern `compare`
  /// Of ranks of other nodes: the connection is gone; calls have been heard.
  std::unique_ptr<std::atomic<bool>[]> lost_, compares_;
  struct Process {
    UniqueFd handle;  // a pidfd; invalid for this process itself, and where there is none
    bool visible;     // its number tells here whether it lives
    pid_t number;
  };
  std::vector<Process> processes_;
  struct Compared {  // with a rank: the last call, and the last message to and from it
    std::uint64_t calls = 0, sent = 0, received = 0;
  };
  std::vector<Compared> compared_;
};

}  // namespace plait
