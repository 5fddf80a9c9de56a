// The two ends of a flow over MPI.
#pragma once
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "plait/error.hpp"
#include "transport/mpi/mpi_extensions.hpp"
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
  void drop(const Message& message) {
    list_.erase(std::find_if(list_.begin(), list_.end(),
                             [&](const Message& other) { return &other == &message; }));
  }
  std::uint64_t started() const noexcept { return started_; }
  bool is_empty() const noexcept { return list_.empty(); }
  /// The number of messages before the first one that is not done.
  std::uint64_t completed() const noexcept {
    return list_.empty() ? started_ : list_.front().number;
  }
  /// Asks MPI to take back the buffers that no message has come for.
  void cancel() {
    for (Message& message : list_)
      if (message.request != MPI_REQUEST_NULL) MPI_Cancel(&message.request);
  }
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
  bool all_done() {
    std::erase_if(list_, [](Message& message) {
      int done = 0;
      return message.request == MPI_REQUEST_NULL ||
             MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
    return list_.empty();
  }
  void abandon() {
    auto flight = std::make_unique<plait::detail::Flight>();
    for (const Message& message : list_) flight->requests.push_back(message.request);
    plait::detail::abandon(std::move(flight));
  }

  std::list<Message> list_;  // in the order of their numbers
  std::uint64_t started_ = 0;
};

/// The common base of both ends: memory, and errors that break the flow. `Base`: SendFlow or
/// ReceiveFlow. `End`: the flow, as the post knows it.
template <class Base, class End>
class MpiFlow : public Base {
 public:
  MpiFlow(const MpiFlow&) = delete;
  MpiFlow& operator=(const MpiFlow&) = delete;
  /// MPI's own registration happens in its calls.
  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind kind) final {
    if (mpi_takes(kind)) return std::make_unique<Registration>();
    throw Error(ErrorCode::unsupported,
                fmt::format("register_memory: this MPI is not built for {} memory",
                            kind == MemoryKind::cuda ? "CUDA" : "HIP"));
  }

 protected:
  using Message = MpiMessages::Message;

  MpiFlow(MpiPost& post, std::shared_ptr<End> end) : post_(post), end_(std::move(end)) {}
  static void check_size(const char* call, std::size_t bytes) {
    if (bytes > largest_mpi_message)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} bytes in one message, but MPI takes at most {}", call, bytes,
                              largest_mpi_message));
  }
  /// Runs `body` unless the flow is broken. Its Error breaks the flow.
  template <class Body>
  auto guard(const char* call, const Body& body) {
    if (broken_) throw Error(*broken_);
    try {
      return post_.use(call, body);
    } catch (const Error& error) {
      broken_ = error;
      throw;
    }
  }
  /// Lets messages finish. If MPI fails, the other side will see it, too.
  template <class Condition>
  void finish(const Condition& has_left) noexcept {
    try {
      messages_.finish(post_, has_left);
    } catch (const std::exception&) {  // see above
    }
  }

  MpiPost& post_;
  std::shared_ptr<End> end_;
  MpiMessages messages_;

 private:
  std::optional<Error> broken_;
};

class MpiSendFlow final : public MpiFlow<SendFlow, SendEnd> {
 public:
  MpiSendFlow(MpiPost& post, std::shared_ptr<SendEnd> end) : MpiFlow(post, std::move(end)) {}
  ~MpiSendFlow() override {
    finish([&] { return end_->state == SendEnd::State::left; });
    // The receiver posts no buffers for the others, so MPI will not read their memory.
    post_.use_last([&] { post_.leave(*end_, messages_.completed()); });
  }

  Request isend(const void* data, std::size_t bytes, Registration&) override {
    check_size("isend", bytes);
    return guard("isend", [&]() -> Request {
      check_present();
      Message& message = messages_.add(bytes);
      const int status = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, end_->rank, end_->tag,
                                   post_.comm(), &message.request);
      check_mpi(status, "MPI_Isend", end_->rank);
      return &message;
    });
  }
  bool test(Request request, std::size_t* received) override {
    auto& message = *static_cast<Message*>(request);
    return guard("test", [&] {
      int done = 0;
      check_mpi(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test", end_->rank);
      if (done == 0) {
        post_.advance();
        check_present();
        return false;
      }
      if (received != nullptr) *received = message.bytes;
      messages_.drop(message);
      return true;
    });
  }

 private:
  void check_present() const {
    if (end_->state == SendEnd::State::left)
      throw Error(ErrorCode::rank_lost,
                  fmt::format("isend: rank {} has closed the flow, or has ended", end_->rank));
  }
};

class MpiReceiveFlow final : public MpiFlow<ReceiveFlow, ReceiveEnd> {
 public:
  MpiReceiveFlow(MpiPost& post, std::shared_ptr<ReceiveEnd> end) : MpiFlow(post, std::move(end)) {}
  ~MpiReceiveFlow() override {
    post_.use_last([&] {
      post_.leave(*end_);
      messages_.cancel();
    });
    finish([] { return false; });  // a buffer whose message has begun to come can't be taken back
  }

  Request irecv(void* data, std::size_t bytes, Registration&) override {
    check_size("irecv", bytes);
    return guard("irecv", [&]() -> Request {
      // Those before it come first, also where the sender has closed the flow.
      if (messages_.started() >= end_->messages && !messages_.is_empty()) return nullptr;
      check_comes(messages_.started());
      Message& message = messages_.add(bytes);
      const int status = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, end_->rank, end_->tag,
                                   post_.comm(), &message.request);
      check_mpi(status, "MPI_Irecv", end_->rank);
      return &message;
    });
  }
  bool test(Request request, std::size_t* received) override {
    auto& message = *static_cast<Message*>(request);
    return guard("test", [&] {
      int done = 0, bytes = 0, kind = MPI_SUCCESS;
      MPI_Status status{};
      const int result = MPI_Test(&message.request, &done, &status);
      if (result != MPI_SUCCESS && MPI_Error_class(result, &kind) == MPI_SUCCESS &&
          kind == MPI_ERR_TRUNCATE)
        throw Error(ErrorCode::bootstrap,
                    fmt::format("test: a message of rank {} is longer than its buffer of {} bytes: "
                                "MPI_Test: {}",
                                end_->rank, message.bytes, plait::detail::describe(result)));
      check_mpi(result, "MPI_Test", end_->rank);
      if (done == 0) {
        post_.advance();
        check_comes(message.number);
        return false;
      }
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", end_->rank);
      if (received != nullptr) *received = static_cast<std::size_t>(bytes);
      messages_.drop(message);
      return true;
    });
  }

 private:
  /// Throws Error(rank_lost) if the sender has closed the flow before that message.
  void check_comes(std::uint64_t number) const {
    if (number >= end_->messages)
      throw Error(ErrorCode::rank_lost,
                  fmt::format("irecv: rank {} has closed the flow after {} messages, or has ended",
                              end_->rank, end_->messages));
  }
};

}  // namespace plait::transport
