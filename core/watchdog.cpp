#include "core/watchdog.hpp"

#include <fmt/format.h>

#include "core/log.hpp"

namespace plait {

Watchdog::Watchdog(std::shared_ptr<Backend> backend, std::uint32_t* claimed, std::chrono::nanoseconds timeout, int rank)
    : backend_(std::move(backend)),
      shared_(static_cast<Shared*>(backend_->allocate_pinned(sizeof(Shared)))),
      claimed_(claimed),
      timeout_(timeout),
      rank_(rank) {}

Watchdog::~Watchdog() {
  try {
    const DeviceScope device(*backend_);
    backend_->synchronize_device();  // kernels look at the words until they end
  } catch (const std::exception&) {  // a device that is lost runs none
  }
  backend_->deallocate_pinned(shared_);
}

Watch Watchdog::watch(std::uint64_t call, std::uint32_t algorithm) const {
  return {.abort = &shared_->abort,
          .record = &shared_->record,
          .claimed = claimed_,
          .timeout_ns = static_cast<std::uint64_t>(timeout_.count()),
          .call = call,
          .algorithm = algorithm,
          .rank = rank_};
}

std::optional<Error> Watchdog::error(const Board& board, const std::vector<std::string>& algorithms) const {
  if (std::atomic_ref(shared_->record.state).load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (error_) return error_;
  const DiagnosticRecord& record = shared_->record;
  const int missing = board.missing_rank(record.peer);
  std::string text = fmt::format(
      "rank {} is missing: in call {} ({}) rank {} waited {:.3g} s for rank {}, in block {} at step {} (expected {}, saw {}); the "
      "communicator is broken",
      missing, record.call, algorithms.at(record.algorithm), record.rank, std::chrono::duration<double>(timeout_).count(), record.peer,
      record.block, record.step, record.expected, record.seen);
  for (int rank = 0; rank < board.ranks(); ++rank) text += "\n  " + board.describe(rank);
  log::error("{}", text);
  error_.emplace(ErrorCode::timeout, text);
  return error_;
}

}  // namespace plait
