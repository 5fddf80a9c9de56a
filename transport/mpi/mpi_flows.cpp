#include "transport/mpi/mpi_flows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "transport/mpi/mpi_extensions.hpp"

namespace plait::transport {
namespace {

using Message = MpiMessages::Message;

/// MPI's own registration happens in its calls.
class MpiRegistration final : public Registration {};

}  // namespace

// --- both ends -----------------------------------------------------------------------------------

void MpiMessages::drop(const Message& message) {
  list_.erase(std::find_if(list_.begin(), list_.end(),
                           [&](const Message& other) { return &other == &message; }));
}

void MpiMessages::cancel() {
  for (Message& message : list_) {
    if (message.request != MPI_REQUEST_NULL) MPI_Cancel(&message.request);
  }
}

bool MpiMessages::all_done() {
  std::erase_if(list_, [](Message& message) {
    int done = 0;
    return message.request == MPI_REQUEST_NULL ||
           MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  return list_.empty();
}

void MpiMessages::abandon() {
  auto flight = std::make_unique<plait::detail::Flight>();
  for (const Message& message : list_) flight->requests.push_back(message.request);
  plait::detail::abandon(std::move(flight));
}

std::unique_ptr<Registration> MpiMemory::check_memory(MemoryKind kind) {
  if (mpi_takes(kind)) return std::make_unique<MpiRegistration>();
  throw Error(ErrorCode::unsupported,
              fmt::format("register_memory: this MPI is not built for {} memory",
                          kind == MemoryKind::cuda ? "CUDA" : "HIP"));
}

void MpiMemory::check_size(const char* call, std::size_t bytes) {
  if (bytes > largest_mpi_message)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} bytes in one message, but MPI takes at most {}", call, bytes,
                            largest_mpi_message));
}

// --- the sender ----------------------------------------------------------------------------------

MpiSendFlow::MpiSendFlow(MpiPost& post, std::shared_ptr<SendEnd> end)
    : post_(post), end_(std::move(end)) {}

MpiSendFlow::~MpiSendFlow() {
  try {
    messages_.finish(post_, [&] { return end_->state == SendEnd::State::left; });
  } catch (const std::exception&) {  // MPI fails, and the other side will see it, too
  }
  // The receiver posts no buffers for the others, so MPI will not read their memory.
  post_.use_last([&] { post_.leave(*end_, messages_.completed()); });
}

void MpiSendFlow::check_present() const {
  if (end_->state == SendEnd::State::left)
    throw Error(ErrorCode::rank_lost,
                fmt::format("isend: rank {} has closed the flow, or has ended", end_->rank));
}

Request MpiSendFlow::isend(const void* data, std::size_t bytes, Registration&) {
  check_size("isend", bytes);
  return guard(post_, "isend", [&]() -> Request {
    check_present();
    Message& message = messages_.add(bytes);
    const int status = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, end_->rank, end_->tag,
                                 post_.comm(), &message.request);
    check_mpi(status, "MPI_Isend", end_->rank);
    return &message;
  });
}

bool MpiSendFlow::test(Request request, std::size_t* received) {
  auto& message = *static_cast<Message*>(request);
  return guard(post_, "test", [&] {
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

// --- the receiver --------------------------------------------------------------------------------

MpiReceiveFlow::MpiReceiveFlow(MpiPost& post, std::shared_ptr<ReceiveEnd> end)
    : post_(post), end_(std::move(end)) {}

MpiReceiveFlow::~MpiReceiveFlow() {
  post_.use_last([&] {
    post_.leave(*end_);
    messages_.cancel();
  });
  try {
    // A buffer whose message has begun to come can't be taken back.
    messages_.finish(post_, [] { return false; });
  } catch (const std::exception&) {  // MPI fails, and the other side will see it, too
  }
}

void MpiReceiveFlow::check_comes(std::uint64_t number) const {
  if (number >= end_->messages)
    throw Error(ErrorCode::rank_lost,
                fmt::format("irecv: rank {} has closed the flow after {} messages, or has ended",
                            end_->rank, end_->messages));
}

Request MpiReceiveFlow::irecv(void* data, std::size_t bytes, Registration&) {
  check_size("irecv", bytes);
  return guard(post_, "irecv", [&]() -> Request {
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

bool MpiReceiveFlow::test(Request request, std::size_t* received) {
  auto& message = *static_cast<Message*>(request);
  return guard(post_, "test", [&] {
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

}  // namespace plait::transport
