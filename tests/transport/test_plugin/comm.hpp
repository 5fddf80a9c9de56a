// One end of a connection of the plug-in, and the messages under way on it.
#pragma once
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/unique_fd.hpp"
#include "faults.hpp"

namespace plait::test_plugin {

struct Memory {
  std::byte* data;
  std::size_t bytes;
  bool is_device;
  std::shared_ptr<int> count;  // of its comm
};

class Comm;
struct Request {
  Comm* comm;
  std::byte* data;  // of a message from or to device memory: `staged`
  std::size_t room;
  std::uint64_t number = 0;  // both ends count their messages, so they match in this order
  std::size_t bytes = 0;     // of the message
  bool done = false;
  std::byte* target = nullptr;  // in device memory
  std::vector<std::byte> staged{};
  bool flushes = false;
  std::uint64_t tests_left = 0;  // of a flush
};

/// From 1 to `most`, and most of them far smaller.
inline std::size_t draw_size(std::size_t most) {
  const auto drawn = std::size_t{1} << draw() % 18;
  return std::min<std::size_t>(most, 1 + draw() % drawn);
}

class Comm {
 public:
  Comm(int fd, bool is_sender) : socket_(fd), sends_(is_sender) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++faults.comms;
  }
  ~Comm() { --faults.comms, faults.orphans += *registrations; }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Result start(void* data, std::size_t bytes, const Memory& memory, void** request) {
    *request = nullptr;
    if (failure_ != success && (sends_ || !has_come(started_))) return failure_;
    const int every = faults.null_every;
    if (every > 0 && ++calls_ % every == 0) return success;
    if (requests_.size() >= static_cast<std::size_t>(most_requests)) return internal_error;
    const int most = faults.fail_after;
    if (sends_ && most >= 0 && started_ >= static_cast<std::uint64_t>(most))
      return failure_ = system_error;
    auto* const place = static_cast<std::byte*>(data);
    if (place < memory.data || place + bytes > memory.data + memory.bytes) return invalid_argument;
    requests_.push_back(std::make_unique<Request>(
        Request{.comm = this, .data = place, .room = bytes, .number = started_++}));
    Request& made = *requests_.back();
    if (sends_) made.bytes = bytes;
    if (memory.is_device) {
      made.staged.resize(bytes);
      made.data = made.staged.data();
      made.target = place;
      if (sends_ && !copy_bytes(made.data, place + faults.device_shift, bytes)) return cuda_error;
      if (sends_) ++faults.device_sends;
    }
    *request = &made;
    // Messages of which several wait can leave in another order.
    if (faults.shuffles == 0) advance();
    return success;
  }
  Result test(Request& request, int* done, int* bytes) {
    *done = 0;
    if (request.flushes) {
      if (request.tests_left-- > 0) return success;
      if (const Result result = place(request.data); result != success) return result;
    } else {
      if (!request.done) advance();
      if (!request.done) return failure_;
    }
    *done = 1;
    if (bytes != nullptr) *bytes = static_cast<int>(request.bytes);
    if (!sends_ && request.target != nullptr && !request.flushes) {
      request.staged.resize(request.bytes);
      arrived_[request.target] = std::move(request.staged);
    }
    std::erase_if(requests_, [&](const auto& each) { return each.get() == &request; });
    return success;
  }
  /// Refuses to flush what has not come.
  Result flush(std::byte* data, std::size_t bytes, void** request) {
    *request = nullptr;
    const auto found = arrived_.find(data);
    if (found == arrived_.end() || found->second.size() != bytes) return internal_error;
    const int every = faults.null_flushes;
    if (every > 0 && ++flushes_ % every == 0) return place(data);
    const auto most = static_cast<std::uint64_t>(faults.flush_tests);
    requests_.push_back(
        std::make_unique<Request>(Request{.comm = this, .data = data, .room = 0, .done = true}));
    requests_.back()->flushes = true;
    requests_.back()->tests_left = draw() % (most + 1);
    *request = requests_.back().get();
    return success;
  }

  const std::shared_ptr<int> registrations = std::make_shared<int>(0);

 private:
  /// What travels before a message.
  struct Head {
    std::uint64_t number, bytes;
  };

  /// One system call. Returns the bytes, 0 if there is no room or nothing has come, or -1 if the
  /// other side is gone.
  ssize_t move(std::byte* data, std::size_t bytes) const {
    if (faults.shorts != 0) bytes = draw_size(bytes);
    const ssize_t n = sends_ ? ::send(socket_.get(), data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                             : ::recv(socket_.get(), data, bytes, MSG_DONTWAIT);
    if (n > 0) return n;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
  }
  /// A message to send.
  Request* choose() const {
    std::vector<Request*> waiting;
    for (const auto& request : requests_)
      if (!request->done) waiting.push_back(request.get());
    return waiting[faults.shuffles != 0 ? draw() % waiting.size() : 0];
  }
  /// True once a message and its head have moved.
  bool move_message() {
    constexpr std::size_t head = sizeof head_;
    while (moved_ < head || moved_ < head + head_.bytes) {
      const bool in_head = moved_ < head;
      std::byte* const base = in_head  ? reinterpret_cast<std::byte*>(&head_)
                              : sends_ ? sending_->data
                                       : incoming_.at(head_.number).data();
      std::byte* const from = base + (in_head ? moved_ : moved_ - head);
      const ssize_t n = move(from, (in_head ? head : head + head_.bytes) - moved_);
      if (n < 0) failure_ = remote_error;
      if (n <= 0) return false;
      moved_ += static_cast<std::size_t>(n);
      if (!sends_ && moved_ == head) incoming_[head_.number].resize(head_.bytes);
    }
    moved_ = 0;
    return true;
  }
  void finish(Request& request) {
    request.done = true;
    const auto first = std::find_if(requests_.begin(), requests_.end(), is_under_way);
    if (first != requests_.end() && (*first)->number < request.number) ++faults.late;
  }
  bool has_come(std::uint64_t number) const {
    return incoming_.contains(number) && (moved_ < sizeof head_ || head_.number != number);
  }
  void match() {
    for (const auto& request : requests_) {
      if (request->done || !has_come(request->number)) continue;
      const std::vector<std::byte> message = std::move(incoming_[request->number]);
      incoming_.erase(request->number);
      if (message.size() > request->room) {
        failure_ = invalid_usage;
        return;
      }
      std::copy(message.begin(), message.end(), request->data);
      request->bytes = message.size();
      finish(*request);
    }
  }
  static bool is_under_way(const std::unique_ptr<Request>& request) { return !request->done; }
  void advance() {
    for (;;) {
      if (!sends_) match();
      if (failure_ != success || std::none_of(requests_.begin(), requests_.end(), is_under_way))
        return;
      if (sends_ && sending_ == nullptr) {
        sending_ = choose();
        head_ = {sending_->number, sending_->bytes};
      }
      if (!move_message()) return;
      if (sends_) finish(*std::exchange(sending_, nullptr));
      if (faults.shuffles != 0 && draw() % 4 == 0) return;
    }
  }
  /// Puts a message where it belongs in device memory.
  Result place(std::byte* target) {
    const std::vector<std::byte>& message = arrived_.at(target);
    if (!copy_bytes(target + faults.device_shift, message.data(), message.size()))
      return cuda_error;
    arrived_.erase(target), ++faults.flushes;
    return success;
  }

  UniqueFd socket_;
  bool sends_;
  std::deque<std::unique_ptr<Request>> requests_{};
  std::uint64_t started_ = 0;
  int calls_ = 0, flushes_ = 0;
  Result failure_ = success;
  Head head_{};
  std::size_t moved_ = 0;  // of a message and its head
  Request* sending_ = nullptr;
  std::map<std::uint64_t, std::vector<std::byte>> incoming_{};
  /// Messages that have come for places in device memory. A flush puts them there, because nothing
  /// else promises that a GPU sees them.
  std::map<std::byte*, std::vector<std::byte>> arrived_{};
};

}  // namespace plait::test_plugin
