// A page of host memory for each rank, which all ranks of the node can read: who is alive, and in which call. When a call breaks, the
// others read here whom they are missing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"

namespace plait {

/// What ranks must have the same in a call.
struct Signature {
  std::uint64_t count = 0;
  std::uint64_t facts = 0;    // collective, type, operation, algorithm, memory
  std::uint64_t options = 0;  // a hash of the launch shape and the scale

  static Signature of(const Call& call, std::size_t algorithm, LaunchShape shape);
  Collective collective() const { return static_cast<Collective>(facts & 0xff); }
  DataType type() const { return static_cast<DataType>(facts >> 8 & 0xff); }
  ReduceOp op() const { return static_cast<ReduceOp>(facts >> 16 & 0xff); }
  std::size_t algorithm() const { return facts >> 24 & 0xffff; }
  /// "all_reduce of 100 f32 elements, sum, in symmetric memory, by ring".
  std::string describe(const std::vector<std::string>& algorithms) const;
  friend bool operator==(const Signature&, const Signature&) = default;
};

class Board {
 public:
  /// Collective.
  explicit Board(Bootstrap& bootstrap);

  /// Notes that this rank has enqueued call number `sequence`, one after the last. A few stores; peers may read at any moment.
  void publish(std::uint64_t sequence, const Signature& signature);

  /// Where two ranks' calls of one number differ. `exact`: in `call` itself; else it is in an earlier call, which nobody remembers any
  /// more.
  struct Disagreement {
    int rank;
    std::uint64_t call;
    bool exact;
    Signature mine, theirs;
  };
  /// Compares what this rank and its peers have published since the last time: a few loads a peer. By one thread at a time.
  std::optional<Disagreement> compare();

  /// What a rank has said of itself. `aborted`: for whatever reason; `gave_up`: a spin of it ran out of time.
  enum class State : std::uint32_t { working, left, aborted, gave_up };
  /// This rank's; only the first other than `working` is kept. `code` and `reason` (at most 500 characters of it): of `aborted`.
  void announce(State state, ErrorCode code = {}, std::string_view reason = {}) noexcept;
  State state(int rank) const noexcept;
  Error reason(int rank) const;

  /// Where a kernel of this rank was waiting when it gave up, for the others' reports; once.
  void show(const DiagnosticRecord& record) noexcept;
  std::optional<DiagnosticRecord> record(int rank) const noexcept;

  /// False once the rank's process has ended. Always true where that can't be seen: in another container's space of process numbers.
  bool is_alive(int rank) const;
  /// "rank 2 (process 4711, which has ended): last call 17, all_reduce of 1024 f32 elements, sum, by ring".
  std::string describe(int rank, const std::vector<std::string>& algorithms) const;
  /// The rank to blame when somebody waits in vain for `suspect`, who may only be waiting for another: one whose process has ended, else
  /// the one that has enqueued the fewest calls, else `suspect`.
  int missing_rank(int suspect) const;
  int ranks() const noexcept { return static_cast<int>(processes_.size()); }

 private:
  struct Page;
  Page& page(int rank) const;

  std::shared_ptr<SymmetricRange> range_;
  int rank_;
  struct Process {
    UniqueFd handle;  // a pidfd; invalid for this process itself, and where there is none
    bool visible;     // whether its number says here whether it lives
  };
  std::vector<Process> processes_;
  std::vector<std::uint64_t> compared_;  // with each rank: the last call
};

}  // namespace plait
