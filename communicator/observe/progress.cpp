#include "communicator/observe/progress.hpp"

#include <algorithm>
#include <utility>

namespace plait {
namespace {

constexpr std::size_t spans_a_peek = std::size_t{8} * span_ring;

}  // namespace

template <class T>
BlockLog::DeviceMemory<T> BlockLog::zeroed(std::size_t count) {
  DeviceMemory<T> memory(static_cast<T*>(backend_->allocate(count * sizeof(T))),
                         Deallocate{backend_.get()});
  backend_->zero(memory.get(), count * sizeof(T));
  return memory;
}

template <class T>
BlockLog::PinnedMemory<T> BlockLog::pinned(std::size_t count) {
  return {static_cast<T*>(backend_->allocate_pinned(count * sizeof(T))),
          DeallocatePinned{backend_.get()}};
}

BlockLog::BlockLog(std::shared_ptr<Backend> backend, bool with_spans)
    : backend_(std::move(backend)),
      progress_(zeroed<BlockProgress>(counted_blocks)),
      spans_(nullptr, Deallocate{backend_.get()}),
      progress_seen_(pinned<BlockProgress>(counted_blocks)),
      spans_seen_(nullptr, DeallocatePinned{backend_.get()}),
      taken_(counted_blocks) {
  if (with_spans) {
    spans_ = zeroed<BlockSpan>(std::size_t{counted_blocks} * span_ring);
    spans_seen_ = pinned<BlockSpan>(spans_a_peek);
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

/// Of the blocks up to the last that has started.
std::span<const BlockProgress> BlockLog::peek_progress() {
  const CopySpan all{progress_seen_.get(), progress_.get(), counted_blocks * sizeof(BlockProgress)};
  backend_->peek(std::span(&all, 1), stream_);
  const std::span<BlockProgress> seen(progress_seen_.get(), counted_blocks);
  // A launch may come in between the looks at a block's words, but one that is completed has
  // started.
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
    const std::uint64_t kept =
        completed > span_ring ? completed - span_ring : 0;  // the first that can still be there
    if (kept > taken_[block]) taken.lost += kept - std::exchange(taken_[block], kept);
    if (completed > taken_[block])
      unread.push_back(
          {.block = block, .first = taken_[block], .count = completed - taken_[block]});
  }
  // As many blocks at once as there is room for.
  constexpr std::size_t blocks_a_peek = spans_a_peek / span_ring;
  for (std::size_t i = 0; i < unread.size(); i += blocks_a_peek) {
    const auto pieces = std::span(unread).subspan(i, std::min(blocks_a_peek, unread.size() - i));
    peek_spans(pieces);
    keep_whole(pieces, into);
  }
  return taken;
}

/// Of each block as many as it says, one block's after the other's.
void BlockLog::peek_spans(std::span<const Unread> pieces) {
  std::vector<CopySpan> copies;
  BlockSpan* to = spans_seen_.get();
  for (const Unread& piece : pieces) {
    const BlockSpan* ring = spans_.get() + std::size_t{piece.block} * span_ring;
    const std::uint64_t begin = piece.first % span_ring,
                        before_end = std::min(piece.count, span_ring - begin);
    copies.push_back({to, ring + begin, before_end * sizeof(BlockSpan)});
    if (before_end < piece.count)
      copies.push_back({to + before_end, ring, (piece.count - before_end) * sizeof(BlockSpan)});
    to += piece.count;
  }
  backend_->peek(copies, stream_);
}

/// A span that doesn't add up is not all there yet, and is looked at again the next time, with
/// those after it; or it has been overwritten, and the next time its block's count says so.
void BlockLog::keep_whole(std::span<const Unread> pieces, std::vector<Span>& into) {
  const BlockSpan* span = spans_seen_.get();
  for (const Unread& piece : pieces) {
    const auto is_whole = [&](std::uint64_t i) {
      return span[i].seal == BlockSpan::sealed(piece.first + i, span[i].call, span[i].started_ns,
                                               span[i].completed_ns);
    };
    for (std::uint64_t i = 0; i < piece.count && is_whole(i); ++i, ++taken_[piece.block])
      into.push_back({.call = span[i].call & ((std::uint64_t{1} << span_call_bits) - 1),
                      .block = piece.block,
                      .blocks = static_cast<unsigned>(span[i].call >> span_call_bits),
                      .started_ns = span[i].started_ns,
                      .completed_ns = span[i].completed_ns});
    span += piece.count;
  }
}

}  // namespace plait
