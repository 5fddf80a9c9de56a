// The two ends of a flow over MPI.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "plait/error.hpp"
#include "transport/mpi/mpi_post.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// MPI counts in int.
inline constexpr std::size_t largest_mpi_message = std::size_t{1} << 30;

/// The messages of a flow that are under way, for both ends.
class MpiMessages {
 public:
  struct Message {
    MPI_Request request;
    std::uint64_t number;  // of the message in its flow
    std::size_t bytes;     // of the buffer
  };

  /// A message that MPI has yet to be told of.
  Message& add(std::size_t bytes) {
    return list_.emplace_back(Message{MPI_REQUEST_NULL, started_++, bytes});
  }
  void drop(const Message& message);
  std::uint64_t started() const noexcept { return started_; }
  bool is_empty() const noexcept { return list_.empty(); }
  /// The number of messages before the first one that is not done.
  std::uint64_t completed() const noexcept {
    return list_.empty() ? started_ : list_.front().number;
  }
  /// Asks MPI to take back the buffers that no message has come for.
  void cancel();
  /// Lets messages finish for at most 100 ms, or until `has_left`. Those that are still under way
  /// then are kept for ever, because MPI still uses them. Not in `use`.
  template <class Condition>
  void finish(MpiPost& post, const Condition& has_left) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    bool done = false;
    while (!done && std::chrono::steady_clock::now() < end)
      post.use("close", [&] {
        done = all_done() || has_left();
        if (!done) post.advance();
      });
    post.use("close", [&] { abandon(); });
  }

 private:
  bool all_done();
  void abandon();

  std::list<Message> list_;  // in the order of their numbers
  std::uint64_t started_ = 0;
};

/// What is the same for both ends: memory, and errors that break the flow.
class MpiMemory {
 protected:
  static std::unique_ptr<Registration> check_memory(MemoryKind kind);
  static void check_size(const char* call, std::size_t bytes);
  /// Runs `body` unless the flow is broken. Its Error breaks the flow.
  template <class Body>
  auto guard(MpiPost& post, const char* call, const Body& body) {
    if (broken_) throw Error(*broken_);
    try {
      return post.use(call, body);
    } catch (const Error& error) {
      broken_ = error;
      throw;
    }
  }

 private:
  std::optional<Error> broken_;
};

class MpiSendFlow final : public SendFlow, MpiMemory {
 public:
  MpiSendFlow(MpiPost& post, std::shared_ptr<SendEnd> end);
  ~MpiSendFlow() override;
  MpiSendFlow(const MpiSendFlow&) = delete;
  MpiSendFlow& operator=(const MpiSendFlow&) = delete;

  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind kind) override {
    return check_memory(kind);
  }
  Request isend(const void* data, std::size_t bytes, Registration& memory) override;
  bool test(Request request, std::size_t* received) override;

 private:
  void check_present() const;

  MpiPost& post_;
  std::shared_ptr<SendEnd> end_;
  MpiMessages messages_;
};

class MpiReceiveFlow final : public ReceiveFlow, MpiMemory {
 public:
  MpiReceiveFlow(MpiPost& post, std::shared_ptr<ReceiveEnd> end);
  ~MpiReceiveFlow() override;
  MpiReceiveFlow(const MpiReceiveFlow&) = delete;
  MpiReceiveFlow& operator=(const MpiReceiveFlow&) = delete;

  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind kind) override {
    return check_memory(kind);
  }
  Request irecv(void* data, std::size_t bytes, Registration& memory) override;
  bool test(Request request, std::size_t* received) override;

 private:
  /// Throws Error(rank_lost) if the sender has closed the flow before that message.
  void check_comes(std::uint64_t number) const;

  MpiPost& post_;
  std::shared_ptr<ReceiveEnd> end_;
  MpiMessages messages_;
};

}  // namespace plait::transport
