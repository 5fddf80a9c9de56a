#include "communicator/nodes/window_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "plait/error.hpp"

namespace plait {

using transport::acquired;
using transport::release;

WindowServer::WindowServer(std::shared_ptr<Backend> backend, std::shared_ptr<WindowTable> table,
                           const Nodes& nodes, int rank, const ChannelMemory& memory,
                           ChunkNote* notes)
    : backend_(std::move(backend)),
      table_(std::move(table)),
      nodes_(nodes),
      rank_(rank),
      memory_(memory),
      notes_(notes),
      slot_bytes_(memory.bytes / WindowRequest::slots),
      signals_(allocate_pinned<std::uint32_t>(backend_, static_cast<std::size_t>(memory.ranks))) {
  if (backend_->info().backend != BackendKind::host) stream_ = backend_->create_stream();
}

void WindowServer::add(const transport::Lane& lane) {
  const std::size_t first = std::size_t{memory_.blocks} * Channels::ways;
  clients_.push_back(
      {.rank = lane.peer,
       .requests = lane.incoming + (first + WindowRequest::ask) * memory_.bytes,
       .replies = lane.outgoing + (first + WindowRequest::reply) * memory_.bytes,
       .here = lane.in_signals + first,
       .there = lane.out_signals + first,
       .notes =
           notes_ + (memory_.first(rank_, lane.peer) + first + WindowRequest::reply) * chunk_notes,
       .copied = stream_ == nullptr ? nullptr : backend_->create_event(false)});
}

WindowServer::~WindowServer() {
  if (stream_ == nullptr) return;
  try {
    const DeviceScope device(*backend_);
    backend_->synchronize(stream_);
    backend_->destroy_stream(stream_);
  } catch (const std::exception&) {  // a lost device copies nothing
  }
}

bool WindowServer::serve() {
  bool moved = false;
  for (Client& client : clients_) {
    if (client.is_refused) continue;
    try {
      moved = serve(client) || moved;
    } catch (const Error& error) {
      client.is_refused = true;
      refuse_(error);
    }
  }
  return moved;
}

bool WindowServer::serve(Client& client) {
  const bool was_copying = client.is_copying;
  if (was_copying && !client.copied->done()) return true;
  if (was_copying) finish(client);
  take_requests(client);
  answer(client);
  if (client.batch.requests == 0 && client.batch.replies == 0) return was_copying;
  client.is_copying = client.batch.copies;
  if (client.is_copying) client.copied->record(stream_);
  else finish(client);
  return true;
}

/// A get is answered before the requests behind it are looked at.
void WindowServer::take_requests(Client& client) {
  const std::uint32_t published = acquired(client.here[WindowRequest::ask].published);
  Batch& batch = client.batch;
  for (; client.get.bytes == 0 && client.asked + batch.requests != published; ++batch.requests) {
    const std::uint32_t k = client.asked + batch.requests;
    std::byte* const slot = client.requests + k % WindowRequest::slots * slot_bytes_;
    WindowRequest request;
    std::memcpy(&request, slot, sizeof request);
    if (request.kind == WindowRequest::Kind::get) client.get = request;
    else if (request.bytes != 0 && !move(client, request, slot + sizeof request)) return;
    batch.signals += request.signals;
  }
}

/// Fills the slots that are free.
void WindowServer::answer(Client& client) {
  const std::uint32_t consumed = acquired(client.here[WindowRequest::reply].consumed);
  WindowRequest& get = client.get;
  for (std::uint32_t& filled = client.batch.replies;
       get.bytes != 0 && client.answered + filled - consumed < WindowRequest::slots; ++filled) {
    const std::uint32_t k = client.answered + filled, at = k % WindowRequest::slots * slot_bytes_;
    WindowRequest piece = get;
    piece.bytes = std::min<std::uint64_t>(get.bytes, slot_bytes_);
    if (!move(client, piece, client.replies + at)) return;
    client.notes[(k + 1) % chunk_notes] = {at, static_cast<std::uint32_t>(piece.bytes)};
    get.offset += piece.bytes;
    get.bytes -= piece.bytes;
  }
}

/// The copies are complete.
void WindowServer::finish(Client& client) {
  const Batch batch = std::exchange(client.batch, {});
  client.is_copying = false;
  if (batch.signals != 0) release(signals_.get()[client.rank], client.signals += batch.signals);
  if (batch.requests != 0)
    release(client.there[WindowRequest::ask].consumed, client.asked += batch.requests);
  if (batch.replies != 0)
    release(client.there[WindowRequest::reply].published, client.answered += batch.replies);
}

/// Copies between a slot and the window. False: the window is not there yet.
bool WindowServer::move(Client& client, const WindowRequest& request, std::byte* slot) {
  const bool puts = request.kind == WindowRequest::Kind::put;
  const auto refuse = [&](const std::string& why) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} {} {} bytes at offset {} of window {} of {}, {}", puts ? "put" : "get",
                    nodes_.name_of_rank(client.rank), puts ? "stores" : "reads", request.bytes,
                    request.offset, request.window, nodes_.name_of_rank(rank_), why));
  };
  const auto found = table_->use(request.window, [&](const WindowTable::Piece& piece) {
    if (request.offset > piece.bytes || request.bytes > piece.bytes - request.offset)
      refuse(fmt::format("which has {} bytes", piece.bytes));
    if (piece.memory != 0 && backend_->memory_number(piece.local, piece.bytes) != piece.memory)
      refuse("whose memory was attached and has been freed since, without `detach`");
    std::byte* const place = piece.local + request.offset;
    copy(client, puts ? place : slot, puts ? slot : place, request.bytes);
  });
  if (found == WindowTable::Found::gone) refuse("which has been detached or destroyed there");
  return found == WindowTable::Found::here;
}

void WindowServer::copy(Client& client, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (stream_ == nullptr) {
    std::memcpy(to, from, bytes);
    return;
  }
  backend_->copy(to, from, bytes, stream_);
  client.batch.copies = true;
}

}  // namespace plait
