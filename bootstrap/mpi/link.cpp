#include "bootstrap/mpi/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <utility>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

// One tag for all contexts, because each message names its context. Messages between two ranks keep
// their order.
constexpr int tag = 0;

}  // namespace

MpiLink::MpiLink(MPI_Comm comm, std::uint64_t number, std::vector<int> processes)
    : comm_(comm), number_(number), processes_(std::move(processes)) {
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", 0);
}

std::optional<std::vector<int>> MpiLink::ranks_of(MPI_Comm comm) const {
  MPI_Group theirs = MPI_GROUP_NULL, mine = MPI_GROUP_NULL;
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size", 0);
  check(MPI_Comm_group(comm, &theirs), "MPI_Comm_group", 0);
  check(MPI_Comm_group(comm_, &mine), "MPI_Comm_group", 0);
  std::vector<int> numbers(static_cast<std::size_t>(size)), ranks(numbers.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const int status = MPI_Group_translate_ranks(theirs, size, numbers.data(), mine, ranks.data());
  MPI_Group_free(&theirs);
  MPI_Group_free(&mine);
  check(status, "MPI_Group_translate_ranks", 0);
  if (std::find(ranks.begin(), ranks.end(), MPI_UNDEFINED) != ranks.end()) return std::nullopt;
  return ranks;
}

std::uint64_t MpiLink::send(int to, const MessageHead& head, std::span<const std::byte> data) {
  const std::scoped_lock lock(mutex_);
  Outgoing& message =
      outgoing_.emplace_back(Outgoing{++sends_, packed(head, data), MPI_REQUEST_NULL});
  const int status = MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()),
                               MPI_BYTE, to, tag, comm_, &message.request);
  if (status == MPI_SUCCESS) return message.number;
  outgoing_.pop_back();
  throw Error(ErrorCode::bootstrap,
              fmt::format("a message to process {} of the job: {}", to, describe(status)));
}

bool MpiLink::is_sent(std::uint64_t message) {
  const std::scoped_lock lock(mutex_);
  return std::none_of(outgoing_.begin(), outgoing_.end(),
                      [&](const Outgoing& other) { return other.number == message; });
}

bool MpiLink::is_idle() {
  const std::scoped_lock lock(mutex_);
  return outgoing_.empty();
}

void MpiLink::advance() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(outgoing_, [](Outgoing& message) {
    int done = 0;
    // A message to a process that has ended can't be sent. It is dropped, because no rank misses
    // it.
    return MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  receive();
  for (auto& [from, messages] : incoming_) {
    for (Incoming& message : messages) {
      int done = 0;
      if (message.done) continue;
      if (MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        message.bytes.clear();  // its sender has ended, and will be found missing
        done = 1;
      }
      message.done = done != 0;
    }
    for (; !messages.empty() && messages.front().done; messages.pop_front())
      route(from, messages.front().bytes);
  }
}

/// Starts to receive the messages that have come.
void MpiLink::receive() {
  for (;;) {
    int found = 0, bytes = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status{};
    check(MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &found, &message, &status), "MPI_Improbe", 0);
    if (found == 0) return;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", 0);
    Incoming& incoming =
        incoming_[status.MPI_SOURCE].emplace_back(Incoming{{}, MPI_REQUEST_NULL, false});
    incoming.bytes.resize(static_cast<std::size_t>(bytes));
    check(MPI_Imrecv(incoming.bytes.data(), bytes, MPI_BYTE, &message, &incoming.request),
          "MPI_Imrecv", status.MPI_SOURCE);
  }
}

void MpiLink::say_farewell() {
  const std::scoped_lock lock(mutex_);
  for (const Bootstrap* group : groups_) BootstrapHooks::say_farewell(*group);
}

Links& Links::instance() {
  static auto* links = new Links;  // never destroyed: needed by an exit handler
  return *links;
}

MpiLink& Links::add(std::unique_ptr<MpiLink> link) {
  const std::scoped_lock lock(mutex_);
  return *links_.emplace_back(std::move(link));
}

MpiLink* Links::find(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&](const auto& link) { return link->number() == number; });
  return found == links_.end() ? nullptr : found->get();
}

MpiLink* Links::find(const Link& link) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&](const auto& other) { return other.get() == &link; });
  return found == links_.end() ? nullptr : found->get();
}

std::vector<std::uint64_t> Links::covering(MPI_Comm comm, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint64_t> numbers;
  for (const auto& link : links_) {
    if (numbers.size() < most && link->ranks_of(comm)) numbers.push_back(link->number());
  }
  return numbers;
}

std::vector<int> Links::processes_of(MPI_Comm comm) {
  const std::scoped_lock lock(mutex_);
  std::vector<int> processes;
  for (const auto& link : links_) {
    const auto ranks = link->ranks_of(comm);
    if (!ranks) continue;
    for (const int rank : *ranks) processes.push_back(link->process(rank));
    break;
  }
  return processes;
}

void Links::say_farewell() {
  const std::scoped_lock lock(mutex_);
  for (const auto& link : links_) link->say_farewell();
}

bool Links::flush() {
  const std::scoped_lock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  Backoff backoff(bootstrap_pace);
  for (;;) {
    bool idle = true;
    for (const auto& link : links_) {
      try {
        link->advance();
      } catch (const std::exception&) {
        return false;
      }
      idle = link->is_idle() && idle;
    }
    if (idle || std::chrono::steady_clock::now() > end) return idle;
    backoff.pause();
  }
}

}  // namespace plait::detail
