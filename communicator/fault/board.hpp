// A page of host memory for each rank, which all ranks of the node can read: who is alive, and in
// which call. When a call breaks, the others read here whom they are missing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/fault/call_log.hpp"
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"

namespace plait {

class Board {
 public:
  /// Collective.
  explicit Board(Bootstrap& bootstrap);

  /// Notes that this rank has enqueued call number `sequence`, one after the last. A few stores;
  /// peers may read at any moment.
  void publish(std::uint64_t sequence, const Signature& signature);
  /// The same for this rank's end of the next message to, or from, `peer`.
  void publish_message(int peer, bool sends, const Signature& signature);

  /// Where this rank and another disagree: in a collective, or in a message that the one sends and
  /// the other receives.
  struct Disagreement : CallLogs::Difference {
    enum class Kind { collective, sent, received } kind;  // by this rank
    int rank;                                             // the other one
  };
  /// Compares what this rank and its peers have published since the last time: a few loads a peer.
  /// By one thread at a time.
  std::optional<Disagreement> compare();

  /// What a rank has said of itself. `left`: it has destroyed the communicator; `ending`: it has
  /// not, and its process ends; `aborted`: for whatever reason; `gave_up`: a spin of it ran out of
  /// time.
  enum class State : std::uint32_t { working, left, ending, aborted, gave_up };
  /// This rank's; only the first other than `working` is kept. `code` and `reason` (at most 500
  /// characters of it): of `aborted`.
  void announce(State state, ErrorCode code = {}, std::string_view reason = {}) noexcept;
  State state(int rank) const noexcept;
  Error reason(int rank) const;
  /// "has destroyed the communicator" of a rank that will make no call any more, or how else it has
  /// left; empty of the others.
  std::string_view departure(int rank) const noexcept;

  /// Where a kernel of this rank was waiting when it gave up, for the others' reports; once.
  void show(const DiagnosticRecord& record) noexcept;
  std::optional<DiagnosticRecord> record(int rank) const noexcept;

  /// What a timeout is put down to, by the record of rank `witness`. `missing`: rank `rank` does
  /// not come; `behind`: it has not made the collective; `silent`: it has, and its process does not
  /// answer; `late`: it has, and its process answers, but no kernel of it waits; `circle`: ranks
  /// wait for each other, of which `rank` is the lowest.
  struct Verdict {
    enum class Kind : std::uint8_t { missing, behind, silent, late, circle } kind;
    int rank, witness;
  };
  /// The first verdict of any rank is that of all, also of those that come to theirs when the board
  /// has moved on. Returns it.
  Verdict settle(const Verdict& verdict) noexcept;
  std::optional<Verdict> settled() const noexcept;

  /// False once the rank's process has ended. Always true where that can't be seen: in another
  /// container's space of process numbers.
  bool is_alive(int rank) const;
  /// Its process has ended, and it has said nothing before. (One that gave up ends because of
  /// that.)
  bool is_lost(int rank) const { return !is_alive(rank) && state(rank) == State::working; }
  /// What this rank has called last that can't end, as `rank` has left before its part of it: "rank
  /// 0 has made call 11, barrier of 0 u8 elements, by barrier", "rank 0 receives message 3 from it,
  /// ...". None: nothing is known to wait for that rank.
  std::optional<std::string> waits_in_vain_for(int rank,
                                               const std::vector<std::string>& algorithms) const;
  /// "rank 2 (process 4711, which has ended): last call 17, barrier of 0 u8 elements, sum, by
  /// barrier; messages: 3 to and 2 from rank 0".
  std::string describe(int rank, const std::vector<std::string>& algorithms) const;
  /// Of what peers have sent to this rank, what it has not received: "2 from rank 0, 1 from rank
  /// 3"; empty: nothing is left.
  std::string left_over() const;
  /// Messages to this rank of which it and the sender have called different numbers: "rank 0 has
  /// sent 3, and 2 are received"; empty: none.
  std::string apart() const;
  /// How many collectives the rank has enqueued.
  std::uint64_t calls(int rank) const noexcept;
  int ranks() const noexcept { return static_cast<int>(processes_.size()); }
  /// The same for all ranks of the communicator in this process, and for no other communicator's.
  const void* shared() const noexcept { return range_.get(); }
  /// Of all ranks: memory for CallBootstrap.
  std::vector<void*> desks() const;

 private:
  struct Page;
  Page& page(int rank) const;
  static std::size_t desk_offset(int ranks);  // in a rank's memory
  using MessageLog = CallLog<256>;
  /// Of rank `owner`: the messages that it has sent to, or received from, `peer`.
  MessageLog& messages(int owner, bool sends, int peer) const;
  /// "; messages: 3 to and 2 from rank 0, 1 to rank 4"; empty if there were none.
  std::string describe_messages(int rank) const;

  std::shared_ptr<SymmetricRange> range_;
  int rank_;
  struct Process {
    UniqueFd handle;  // a pidfd; invalid for this process itself, and where there is none
    bool visible;     // whether its number says here whether it lives
  };
  std::vector<Process> processes_;
  struct Compared {  // with a rank: the last call, and the last message to and from it
    std::uint64_t calls = 0, sent = 0, received = 0;
  };
  std::vector<Compared> compared_;
};

}  // namespace plait
