#include "bootstrap/mpi_bootstrap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "bootstrap/mpi_handshake.hpp"
#include "plait/mpi.hpp"

namespace plait {
namespace detail {
namespace {

/// Keeps the copies moderate, and is far below INT_MAX.
constexpr std::size_t largest_message = std::size_t{64} << 20;

/// Copies a message of a call that both ranks have described alike.
void copy_exactly(void* to, const std::vector<std::byte>& message, std::size_t bytes) {
  if (message.size() != bytes)
    throw Error(ErrorCode::bootstrap,
                fmt::format("a message of {} bytes came where one of {} was expected",
                            message.size(), bytes));
  if (bytes > 0) std::memcpy(to, message.data(), bytes);
}

}  // namespace

MpiBootstrap::~MpiBootstrap() {
  if (!origin_.is_here()) return;  // a child of fork() has no part in this
  OpenBootstraps::instance().remove(this);
  if (is_finalized()) return;
  try {
    send(MessageHead::Type::left, sequence_, {}, {});
    link_.advance();
  } catch (const std::exception&) {  // the others will find this rank missing
  }
  std::vector<int> others = ranks_;
  others.erase(others.begin() + rank_);
  link_.close(context_, others);
}

void MpiBootstrap::require_usable(const char* call) {
  origin_.require(call, "bootstrap");
  if (is_finalized())
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {}: MPI is already finalised", call, rank_));
  try {
    throw_if_interrupted();
  } catch (const std::exception& error) {
    if (failure_.empty()) give_up(gave_up(rank_, error.what()), sequence_ + 1);
    throw;
  }
  if (!failure_.empty())
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {}: an earlier call failed: {}", call, rank_, failure_));
}

std::vector<MpiBootstrap::Sent> MpiBootstrap::send(MessageHead::Type type, std::uint64_t sequence,
                                                   const CallId& call,
                                                   std::span<const std::byte> data) {
  std::vector<Sent> sent;
  const MessageHead head{context_, sequence, type, call};
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    sent.push_back({peer, link_.send(in_link(peer), head, data)});
  }
  return sent;
}

void MpiBootstrap::give_up(const std::string& why, std::uint64_t sequence) noexcept {
  failure_ = why;
  if (!origin_.is_here() || is_finalized()) return;
  try {
    send(MessageHead::Type::failed, sequence, {},
         std::as_bytes(std::span(why.data(), std::min<std::size_t>(why.size(), 1000))));
  } catch (const std::exception&) {  // then the others' time will run out
  }
}

void MpiBootstrap::fail(ErrorCode code, const CallId& call, const std::string& why) {
  give_up(why, sequence_);
  throw Error(code, fmt::format("{}: rank {}: {}", name_of(call.kind), rank_, why));
}

void MpiBootstrap::all_gather(const void* in, void* out, std::size_t bytes) {
  check_all_gather(rank_, size(), in, out, bytes);
  const CallId call(CallKind::all_gather, bytes, 0, purposes());
  // The input may lie at this rank's place in the output, so that place is written last.
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  std::size_t begin = 0;
  do {
    const std::size_t part = std::min(bytes - begin, largest_message / index(size()));
    const std::vector<Bytes> all = exchange(call, std::span(from, bytes).subspan(begin, part));
    if (part == 0) return;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank != index(rank_)) copy_exactly(to + rank * bytes + begin, all[rank], part);
    }
    begin += part;
  } while (begin < bytes);
  std::memmove(to + index(rank_) * bytes, from, bytes);
}

void MpiBootstrap::broadcast(void* data, std::size_t bytes, int root) {
  check_broadcast(rank_, size(), data, bytes, root);
  const CallId call(CallKind::broadcast, bytes, root, purposes());
  auto* const begin = static_cast<std::byte*>(data);
  std::size_t at = 0;
  do {
    const std::size_t part = std::min(bytes - at, largest_message);
    const std::vector<Bytes> all =
        exchange(call, rank_ == root ? std::span(begin + at, part) : std::span<std::byte>());
    if (rank_ != root) copy_exactly(begin + at, all[index(root)], part);
    at += part;
  } while (at < bytes);
}

std::unique_ptr<Bootstrap> MpiBootstrap::split(int color, int key) {
  const SplitKey mine{color, key, node(), draw_number()};
  const auto all =
      exchange({CallKind::split, sizeof mine, 0, purposes()}, std::as_bytes(std::span(&mine, 1)));
  std::vector<SplitKey> keys(all.size(), mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank != index(rank_)) copy_exactly(&keys[rank], all[rank], sizeof mine);
  }
  const std::vector<int> members = split_members(keys, rank_);
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(in_link(member));
  const auto place =
      static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  // One number serves all colors, because no two have a rank in common.
  auto part = std::make_unique<MpiBootstrap>(link_, keys[0].drawn, std::move(ranks),
                                             nodes_of(keys, members), place, timeout());
  part->set_parent_ranks(members);
  return part;
}

}  // namespace detail

std::unique_ptr<Bootstrap> make_mpi_bootstrap(MPI_Comm comm,
                                              std::optional<std::chrono::nanoseconds> timeout) {
  detail::initialize_mpi();
  if (comm == MPI_COMM_NULL)
    throw Error(ErrorCode::invalid_argument,
                "make_mpi_bootstrap: the communicator is MPI_COMM_NULL");
  // A handle that was never set, or that Open MPI makes of a Fortran integer that it does not know.
  // MPI would end the program.
  if (comm == MPI_Comm{})
    throw Error(ErrorCode::invalid_argument,
                "make_mpi_bootstrap: the communicator is none of MPI's");
  int inter = 0, rank = 0;
  detail::check(MPI_Comm_test_inter(comm, &inter), "make_mpi_bootstrap", 0);
  if (inter != 0) {
    throw Error(ErrorCode::invalid_argument,
                "make_mpi_bootstrap: the communicator is an inter-communicator; merge it first");
  }
  detail::check(MPI_Comm_rank(comm, &rank), "make_mpi_bootstrap", 0);
  std::string failure;  // the others wait for this rank, so it must come and tell them
  const auto choose_limit = [&]() -> std::chrono::nanoseconds {
    if (timeout) return *timeout;
    try {
      return detail::timeout_of_environment();
    } catch (const Error& error) {
      failure = error.what();
      return std::chrono::minutes{10};
    }
  };
  const std::chrono::nanoseconds limit = choose_limit();
  detail::Meeting meeting = detail::meet(comm, limit, failure);
  return std::make_unique<detail::MpiBootstrap>(
      *meeting.link, meeting.context, std::move(meeting.ranks), meeting.nodes, rank, limit);
}

}  // namespace plait
