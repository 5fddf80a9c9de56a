#include "transport/peer.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "transport/crc32c.hpp"

namespace plait::transport {
namespace {

[[noreturn]] void damaged(const char* what, std::size_t bytes) {
  throw Error(
      ErrorCode::bootstrap,
      fmt::format("a {} of {} bytes was damaged on its way: its CRC-32C is another", what, bytes));
}

}  // namespace

Peer::Peer(Transport& transport, const Lane& lane, int rank, Counters& counters)
    : transport_(transport),
      lane_(lane),
      address_(*lane.address),
      counters_(counters),
      published_(lane.channels, lane.counters_begin),
      consumed_(lane.channels, lane.counters_begin),
      credit_flags_(lane.channels),
      held_(lane.channels) {
  frames_out_.hello = {rank, PeerHello::Use::frames};
  data_out_.hello = {rank, PeerHello::Use::data};
}

Peer::~Peer() = default;

void Peer::refuse(const char* what) const {
  throw Error(ErrorCode::bootstrap,
              fmt::format("rank {} has sent what no proxy sends: {}", lane_.peer, what));
}

bool Peer::send(Credits credits) {
  if (is_gone()) return false;
  if (end_) {
    if (is_absent_ && has_published()) throw Error(*end_);
    return false;
  }
  try {
    bool moved = finish_frames();
    if (is_moving_) move();
    if (moved_from_ && moved_from_->is_safe()) moved_from_.reset();
    moved = collect(credits) || moved;
    moved = send_frame() || moved;
    return send_data() || moved;
  } catch (const Error& error) {
    end(error);
    return true;
  }
}

/// A flow moves only in its own calls, so all requests are tested, also those that nothing waits
/// for.
bool Peer::finish_frames() {
  bool moved = false;
  for (FrameBuffer& frame : out_) {
    if (frame.request == nullptr || !frames_out_.flow->test(frame.request)) continue;
    frame.request = nullptr;
    moved = true;
  }
  return moved;
}

/// True if an entry with `size` bytes fits into the next frame. Takes a free buffer if there is no
/// next frame yet.
bool Peer::has_room(std::size_t size) {
  for (FrameBuffer& frame : out_) {
    if (filling_ != nullptr) break;
    if (frame.request != nullptr) continue;
    filling_ = &frame;
    writer_ = FrameWriter(frame_room(frame));
  }
  return filling_ != nullptr && writer_.has_room(size);
}

/// For entries: all but the place of the checksum.
std::span<std::byte> Peer::frame_room(FrameBuffer& frame) const {
  return std::span(frame.bytes).first(frame_bytes - (lane_.is_checked ? sizeof(Checksum) : 0));
}

/// Puts all news into the next frame. What has no room there comes with a later one, and so does
/// the farewell then, because nothing counts after it.
bool Peer::collect(Credits credits) {
  if (is_moving_ || farewell_ == Farewell::framed || farewell_ == Farewell::flushing) return false;
  bool has_news = false;
  for (std::uint32_t channel = 0; channel < lane_.channels; ++channel)
    has_news = collect_chunks(channel) || has_news;
  while (!told_.empty() && has_room(told_.front().size())) {
    writer_.add({.kind = FrameEntry::Kind::control}, told_.front());
    told_.pop_front();
    has_news = true;
  }
  has_news = collect_credits(has_news ? Credits::all : credits) || has_news;
  if (farewell_ == Farewell::due && is_known() && told_.empty() && !has_published() &&
      !held_since_ && has_room(0)) {
    writer_.add({.kind = FrameEntry::Kind::left});
    farewell_ = Farewell::framed;
    return true;
  }
  if (!is_to_move() || !has_room(0)) return has_news;
  writer_.add({.kind = FrameEntry::Kind::moved});
  return is_moving_ = true;
}

/// Where the note does not say so, the credit of a single chunk may wait for a few rounds: a
/// channel has two slots at least, so its sender can go on.
bool Peer::may_wait(std::uint32_t channel, std::uint32_t chunks, Credits credits) const {
  if (credits == Credits::all) return false;
  const std::uint32_t flags = credit_flags_[channel];
  if ((flags & ChunkNote::credit_in_bulk) != 0) return chunks < ChunkNote::bulk;
  if (credits == Credits::most) return false;
  return (flags & ChunkNote::credit_may_wait) != 0 || (chunks == 1 && credits == Credits::urgent);
}

bool Peer::collect_credits(Credits credits) {
  using Clock = std::chrono::steady_clock;
  if (credits != Credits::urgent && held_since_ && Clock::now() > *held_since_ + most_held)
    credits = Credits::all;
  bool has_news = false, holds = false;
  for (std::uint32_t channel = 0; channel < lane_.channels; ++channel) {
    const std::uint32_t consumed = acquired(lane_.out_signals[channel].consumed);
    const std::uint32_t chunks = consumed - consumed_[channel];
    if (chunks == 0) continue;
    if (may_wait(channel, chunks, credits) || !has_room(0)) {
      holds = true;
      continue;
    }
    writer_.add({.kind = FrameEntry::Kind::credit,
                 .channel = static_cast<std::uint16_t>(channel),
                 .value = consumed});
    consumed_[channel] = consumed;
    has_news = true;
  }
  if (!holds) held_since_.reset();
  else if (!held_since_) held_since_ = Clock::now();
  return has_news;
}

/// There are chunks that are in no frame yet.
bool Peer::has_published() const {
  for (std::uint32_t channel = 0; channel < lane_.channels; ++channel)
    if (acquired(lane_.out_signals[channel].published) != published_[channel]) return true;
  return false;
}

bool Peer::collect_chunks(std::uint32_t channel) {
  const std::uint32_t published = acquired(lane_.out_signals[channel].published);
  bool has_news = false;
  for (std::uint32_t& seen = published_[channel]; seen != published; ++seen, has_news = true) {
    const std::uint32_t value = seen + 1;
    const ChunkNote note = lane_.notes[channel * chunk_notes + value % chunk_notes];
    const std::uint32_t place = note.offset & ChunkNote::on_device;
    const std::byte* const data = (place == 0 ? lane_.outgoing : lane_.device_outgoing) +
                                  channel * lane_.channel_bytes + (note.offset & ~ChunkNote::flags);
    const bool travels_along = note.bytes <= (place == 0 ? most_inline_bytes : 0);
    if (!has_room(travels_along ? note.bytes : sizeof(Checksum))) break;
    const FrameEntry entry{.kind = travels_along ? FrameEntry::Kind::chunk : FrameEntry::Kind::data,
                           .channel = static_cast<std::uint16_t>(channel),
                           .value = value,
                           .offset = note.offset,
                           .bytes = note.bytes};
    if (travels_along) {
      writer_.add(entry, {data, note.bytes});
    } else {
      const Checksum sum = lane_.is_checked ? crc32c({data, note.bytes}) : 0;
      writer_.add(entry, std::as_bytes(std::span(&sum, lane_.is_checked ? 1 : 0)));
      sending_.push_back({place, data, note.bytes});
    }
    has_unsent_chunks_ = true;
    counters_.bytes_sent += note.bytes;
    ++counters_.chunks_sent;
  }
  return has_news;
}

bool Peer::send_frame() {
  if (filling_ == nullptr || writer_.size() == 0 || !open(frames_out_)) return false;
  std::size_t bytes = writer_.size();
  if (lane_.is_checked) {
    const Checksum sum = crc32c(std::span(filling_->bytes).first(bytes));
    std::memcpy(filling_->bytes.data() + bytes, &sum, sizeof sum);
    bytes += sizeof sum;
  }
  filling_->request = frames_out_.flow->isend(filling_->bytes.data(), bytes, *filling_->memory);
  if (filling_->request == nullptr) return false;
  ++counters_.frames_sent;
  has_unsent_chunks_ = false;
  filling_ = nullptr;
  writer_.clear();
  if (farewell_ == Farewell::framed) {
    farewell_ = Farewell::flushing;
    farewell_at_ = std::chrono::steady_clock::now();
  }
  return true;
}

bool Peer::send_data() {
  if (sending_.empty() || !open(data_out_)) return false;
  bool moved = false;
  for (Sending& one : sending_) {
    if (one.request != nullptr) continue;
    one.request = data_out_.flow->isend(one.data, one.bytes, data_out_.slots.at(one.place));
    if (one.request == nullptr) break;
    moved = true;
  }
  while (!sending_.empty() && sending_.front().request != nullptr &&
         data_out_.flow->test(sending_.front().request)) {
    sending_.pop_front();
    moved = true;
  }
  return moved;
}

/// One frame, because the kernel that waits for it may be the one that does this work, and looking
/// for another one costs a system call.
/// A flow that has ended may take no more, but the farewell may be in a buffer that it has filled.
void Peer::post_frames() {
  for (std::size_t i = 0; i < in_.size(); ++i) {
    FrameBuffer& frame = in_[(next_in_ + i) % in_.size()];  // messages fill them in this order
    if (frame.request != nullptr) continue;
    try {
      frame.request = frames_in_->irecv(frame.bytes.data(), frame.bytes.size(), *frame.memory);
      if (frame.request == nullptr) return;  // the flow may take the next one
    } catch (const Error& error) {
      if (error.code() != ErrorCode::rank_lost || in_[next_in_].request == nullptr) throw;
      return;
    }
  }
}

bool Peer::receive_frames(const Listening& listening) {
  if (frames_in_ == nullptr || peer_left_) return false;
  post_frames();
  FrameBuffer& next = in_[next_in_];
  std::size_t size = 0;
  if (next.request == nullptr || !frames_in_->test(next.request, &size)) return false;
  next.request = nullptr;
  next_in_ = (next_in_ + 1) % in_.size();
  const bool had_moved = peer_has_moved_;
  read(checked(std::span(next.bytes).first(size)), listening);
  if (peer_has_moved_ && !had_moved) drop_frames_in();
  return true;
}

/// The entries of a frame.
std::span<const std::byte> Peer::checked(std::span<const std::byte> frame) const {
  if (!lane_.is_checked) return frame;
  if (frame.size() < sizeof(Checksum)) refuse("a frame without a checksum");
  const auto entries = frame.first(frame.size() - sizeof(Checksum));
  Checksum sum = 0;
  std::memcpy(&sum, entries.data() + entries.size(), sizeof sum);
  if (crc32c(entries) != sum) damaged("frame", frame.size());
  return entries;
}

/// Looks at a chunk that has come by itself.
void Peer::check_chunk(const Arriving& one) const {
  const std::byte* const data =
      lane_.incoming + one.channel * lane_.channel_bytes + (one.offset & ~ChunkNote::flags);
  if (crc32c({data, one.bytes}) != one.checksum) damaged("chunk", one.bytes);
}

void Peer::read(std::span<const std::byte> frame, const Listening& listening) {
  FrameReader reader(frame);
  while (!reader.at_end()) {
    const auto item = reader.next();
    if (!item) refuse("a frame that ends within an entry");
    const FrameEntry& entry = item->entry;
    if (entry.kind <= FrameEntry::Kind::credit && entry.channel >= lane_.channels)
      refuse("a channel that is none");
    switch (entry.kind) {
      case FrameEntry::Kind::chunk:
      case FrameEntry::Kind::data:
        arrive(*item);
        break;
      case FrameEntry::Kind::credit:
        release(lane_.in_signals[entry.channel].consumed, entry.value);
        break;
      case FrameEntry::Kind::control:
        if (listening.hear) listening.hear(lane_.peer, item->data);
        break;
      case FrameEntry::Kind::left:
        peer_left_ = true;
        break;
      case FrameEntry::Kind::moved:
        if (replies_ == nullptr || peer_has_moved_) refuse("a move to no connection");
        peer_has_moved_ = true;
        break;
      default:
        refuse("an unknown entry");
    }
  }
}

void Peer::arrive(const FrameReader::Item& item) {
  const FrameEntry& entry = item.entry;
  const bool is_data = entry.kind == FrameEntry::Kind::data;
  const std::uint32_t place = entry.offset & ChunkNote::on_device,
                      offset = entry.offset & ~ChunkNote::flags;
  if (entry.bytes > lane_.channel_bytes || offset > lane_.channel_bytes - entry.bytes ||
      item.data.size() != (!is_data           ? entry.bytes
                           : lane_.is_checked ? sizeof(Checksum)
                                              : 0))
    refuse("a chunk that does not fit its channel");
  if (place != 0 && (lane_.device_incoming == nullptr || (!is_data && entry.bytes != 0)))
    refuse("a chunk for device memory that this rank can't place there");
  if (!is_data && entry.bytes != 0)
    std::memcpy(lane_.incoming + entry.channel * lane_.channel_bytes + offset, item.data.data(),
                entry.bytes);
  credit_flags_[entry.channel] = entry.offset & ChunkNote::flags;
  if (!is_data && held_[entry.channel] == 0)
    return release(lane_.in_signals[entry.channel].published, entry.value);
  // Its counter must not be raised before those of earlier chunks.
  ++held_[entry.channel];
  Checksum sum = 0;
  if (is_data && lane_.is_checked) std::memcpy(&sum, item.data.data(), sizeof sum);
  arriving_.push_back({entry.channel, entry.value, entry.offset, entry.bytes, is_data, sum});
}

bool Peer::receive_data() {
  bool moved = false;
  for (Arriving& one : arriving_) {
    if (!one.is_data || one.request != nullptr) continue;
    if (data_in_ == nullptr) break;
    const std::uint32_t place = one.offset & ChunkNote::on_device;
    one.request =
        data_in_->irecv((place == 0 ? lane_.incoming : lane_.device_incoming) +
                            one.channel * lane_.channel_bytes + (one.offset & ~ChunkNote::flags),
                        one.bytes, data_in_slots_.at(place));
    if (one.request == nullptr) break;
  }
  while (!arriving_.empty()) {
    const Arriving& one = arriving_.front();
    std::size_t size = one.bytes;
    if (one.is_data && (one.request == nullptr || !data_in_->test(one.request, &size))) break;
    if (size != one.bytes) refuse("less data than it has announced");
    if (one.is_data && lane_.is_checked) check_chunk(one);
    release(lane_.in_signals[one.channel].published, one.value);
    --held_[one.channel];
    arriving_.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace plait::transport
