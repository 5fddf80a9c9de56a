#include "communicator/observe/progress.hpp"

#include <algorithm>
#include <utility>

namespace plait {
namespace {

constexpr std::size_t spans_per_peek = std::size_t{8} * span_ring;

}  // namespace

BlockLog::BlockLog(std::shared_ptr<Backend> backend, bool with_spans)
    : backend_(std::move(backend)),
      progress_(allocate_zeroed<BlockProgress>(backend_, counted_blocks)),
      progress_seen_(allocate_pinned<BlockProgress>(backend_, counted_blocks)),
      taken_(counted_blocks) {
  if (with_spans) {
    spans_ = allocate_zeroed<BlockSpan>(backend_, std::size_t{counted_blocks} * span_ring);
    spans_seen_ = allocate_pinned<BlockSpan>(backend_, spans_per_peek);
  }
  stream_ = backend_->create_stream();
}

BlockLog::~BlockLog() {
  try {
    const DeviceScope device(*backend_);
    backend_->destroy_stream(stream_);
  } catch (const std::exception&) {  // the device is lost, and its streams with it
  }
}

void BlockLog::put_into(Watch& watch) const {
  watch.progress = progress_.get();
  watch.spans = spans_.get();
}

/// Returns the counters of the blocks up to the last that has started.
std::span<const BlockProgress> BlockLog::peek_progress() {
  const CopySpan all{progress_seen_.get(), progress_.get(), counted_blocks * sizeof(BlockProgress)};
  backend_->peek(std::span(&all, 1), stream_);
  const std::span<BlockProgress> seen(progress_seen_.get(), counted_blocks);
  // The words are read one by one, so `completed` may be newer than `started`. A completed launch
  // has started.
  for (BlockProgress& block : seen) block.started = std::max(block.started, block.completed);
  const auto last = std::find_if(seen.rbegin(), seen.rend(),
                                 [](const BlockProgress& block) { return block.started != 0; });
  return seen.first(static_cast<std::size_t>(seen.rend() - last));
}

Progress BlockLog::read() {
  const std::lock_guard lock(mutex_);
  const DeviceScope device(*backend_);
  Progress progress;
  for (const BlockProgress& block : peek_progress()) {
    progress.blocks.push_back({.started = block.started,
                               .completed = block.completed,
                               .started_at = std::chrono::nanoseconds(block.started_ns),
                               .completed_at = std::chrono::nanoseconds(block.completed_ns)});
    progress.started += block.started;
    progress.completed += block.completed;
  }
  return progress;
}

BlockLog::Taken BlockLog::take_spans(std::vector<Span>& into) {
  const std::lock_guard lock(mutex_);
  const DeviceScope device(*backend_);
  Taken taken;
  const auto seen = peek_progress();
  taken.read_at = std::chrono::steady_clock::now();
  std::vector<Unread> unread;
  for (unsigned block = 0; block < seen.size(); ++block) {
    const std::uint64_t completed = seen[block].completed;
    taken.latest_ns = std::max({taken.latest_ns, seen[block].started_ns, seen[block].completed_ns});
    // The first span that can still be in the ring.
    const std::uint64_t kept = completed > span_ring ? completed - span_ring : 0;
    if (kept > taken_[block]) taken.lost += kept - std::exchange(taken_[block], kept);
    if (completed > taken_[block])
      unread.push_back(
          {.block = block, .first = taken_[block], .count = completed - taken_[block]});
  }
  constexpr std::size_t blocks_per_peek = spans_per_peek / span_ring;
  for (std::size_t i = 0; i < unread.size(); i += blocks_per_peek) {
    const auto runs = std::span(unread).subspan(i, std::min(blocks_per_peek, unread.size() - i));
    peek_spans(runs);
    keep_whole(runs, into);
  }
  return taken;
}

/// Copies the runs to `spans_seen_`, one after another.
void BlockLog::peek_spans(std::span<const Unread> runs) {
  std::vector<CopySpan> copies;
  BlockSpan* to = spans_seen_.get();
  for (const Unread& run : runs) {
    const BlockSpan* ring = spans_.get() + std::size_t{run.block} * span_ring;
    const std::uint64_t begin = run.first % span_ring,
                        before_end = std::min(run.count, span_ring - begin);
    copies.push_back({to, ring + begin, before_end * sizeof(BlockSpan)});
    if (before_end < run.count)
      copies.push_back({to + before_end, ring, (run.count - before_end) * sizeof(BlockSpan)});
    to += run.count;
  }
  backend_->peek(copies, stream_);
}

/// Stops at a span whose seal is wrong. Either not all of its words have arrived, and the next call
/// reads it again with those after it; or it has been overwritten, and by then its block's count
/// tells.
void BlockLog::keep_whole(std::span<const Unread> runs, std::vector<Span>& into) {
  const BlockSpan* span = spans_seen_.get();
  for (const Unread& run : runs) {
    const auto is_whole = [&](std::uint64_t i) {
      return span[i].seal == BlockSpan::sealed(run.first + i, span[i].call, span[i].started_ns,
                                               span[i].completed_ns);
    };
    for (std::uint64_t i = 0; i < run.count && is_whole(i); ++i, ++taken_[run.block])
      into.push_back({.call = span[i].call & ((std::uint64_t{1} << span_call_bits) - 1),
                      .block = run.block,
                      .blocks = static_cast<unsigned>(span[i].call >> span_call_bits),
                      .started_ns = span[i].started_ns,
                      .completed_ns = span[i].completed_ns});
    span += run.count;
  }
}

}  // namespace plait
