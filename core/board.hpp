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

namespace plait {

class Board {
 public:
  /// Collective.
  explicit Board(Bootstrap& bootstrap);

  /// Notes that this rank has enqueued call number `sequence`. A few stores; peers may read at any moment.
  void publish(std::uint64_t sequence, const Call& call, std::string_view algorithm);

  /// What a rank has said of itself. `gave_up`: a spin of it ran out of time.
  enum class State : std::uint32_t { working, left, aborted, gave_up };
  /// This rank's; only the first other than `working` is kept. `reason`: at most 200 characters of it are.
  void announce(State state, std::string_view reason = {}) noexcept;
  State state(int rank) const noexcept;
  std::string reason(int rank) const;

  /// Where a kernel of this rank was waiting when it gave up, for the others' reports; once.
  void show(const DiagnosticRecord& record) noexcept;
  std::optional<DiagnosticRecord> record(int rank) const noexcept;

  /// False once the rank's process has ended.
  bool is_alive(int rank) const;
  /// "rank 2 (process 4711, ended): last call 17, all_reduce of 1024 f32, sum, by ring".
  std::string describe(int rank) const;
  /// The rank to blame when somebody waits in vain for `suspect`, who may only be waiting for another: one whose process has ended, else
  /// the one that has enqueued the fewest calls, else `suspect`.
  int missing_rank(int suspect) const;
  int ranks() const noexcept { return static_cast<int>(processes_.size()); }

 private:
  struct Page;
  Page& page(int rank) const;

  std::shared_ptr<SymmetricRange> range_;
  int rank_;
  std::vector<UniqueFd> processes_;  // pidfds; invalid for this process itself
};

}  // namespace plait
