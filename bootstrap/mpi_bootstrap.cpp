// The ranks are processes of an MPI job. In every call, each rank sends every other rank a message
// that names the call. So errors name a rank that does not arrive, which MPI's own collectives
// can't, and ranks that are in different calls. Sizes are not bound by `int`. The messages are few
// and small, and Open MPI's MPI_Iallgather works in the same way.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/mpi_handshake.hpp"
#include "bootstrap/mpi_link.hpp"
#include "bootstrap/mpi_support.hpp"
#include "bootstrap/support.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"
#include "plait/mpi.hpp"

namespace plait {
namespace {

using detail::CallId;
using detail::CallKind;
using detail::Link;
using detail::MessageHead;

/// Keeps the copies moderate, and is far below INT_MAX.
constexpr std::size_t largest_message = std::size_t{64} << 20;
/// How long a rank that has waited in vain still waits for the others to say so, too.
constexpr std::chrono::milliseconds expiry_grace{150};

/// All bootstraps that exist.
class Open {
 public:
  static Open& instance() {
    static auto* open = new Open;  // never destroyed: needed by an exit handler
    return *open;
  }
  void add(Bootstrap* bootstrap) {
    const std::scoped_lock lock(mutex_);
    bootstraps_.insert(bootstrap);
  }
  void remove(Bootstrap* bootstrap) {
    const std::scoped_lock lock(mutex_);
    bootstraps_.erase(bootstrap);
  }
  void say_farewell() {
    const std::scoped_lock lock(mutex_);
    for (const Bootstrap* bootstrap : bootstraps_) BootstrapHooks::say_farewell(*bootstrap);
  }

 private:
  std::mutex mutex_;
  std::set<Bootstrap*> bootstraps_;
};

/// MPI belongs to the process that initialised it.
class Initialized {
 public:
  /// Throws in a child that was forked from a process that had initialised MPI.
  static void require_not_inherited(const char* call) {
    if (!in_parent) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this process was forked from one that uses MPI, and a child "
                            "can't: exec, or fork before MPI is initialised",
                            call));
  }

 private:
  static inline std::atomic<bool> in_parent = false;
  static inline const int at_fork = pthread_atfork(nullptr, nullptr, [] {
    int flag = 0;
    MPI_Initialized(&flag);
    if (flag != 0) in_parent = true;
  });
};

void finalize_at_exit(const Origin& initialized) {
  if (!initialized.is_exactly_here() || detail::is_finalized()) return;
  // Also if MPI is not finalised, because the process may then take a while to end.
  Open::instance().say_farewell();
  // MPI_Finalize waits for all ranks, so it would hang if one is missing. Without it, mpirun sees a
  // failed process and ends the job.
  if (detail::nothing_abandoned() && detail::Links::instance().flush()) MPI_Finalize();
}

void initialize_mpi() {
  Initialized::require_not_inherited("make_mpi_bootstrap");
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (detail::is_finalized())
    throw Error(ErrorCode::bootstrap,
                "make_mpi_bootstrap: MPI is already finalised in this process");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return;
  int provided = 0;
  const int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (status != MPI_SUCCESS)
    throw Error(ErrorCode::bootstrap,
                fmt::format("make_mpi_bootstrap: MPI_Init_thread: {}", detail::describe(status)));
  static const Origin here;
  std::atexit([] { finalize_at_exit(here); });
}

class MpiBootstrap final : public Bootstrap {
 public:
  /// `ranks`: the group's ranks by their numbers in the link. `nodes`: the node of each.
  MpiBootstrap(Link& link, std::uint64_t context, std::vector<int> ranks,
               const std::vector<int>& nodes, int rank, std::chrono::nanoseconds timeout)
      : link_(link), context_(context), ranks_(std::move(ranks)), rank_(rank) {
    set_timeout(timeout);
    set_nodes(nodes);
    Open::instance().add(this);
  }
  ~MpiBootstrap() override;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(ranks_.size()); }

  using Bootstrap::all_gather;
  using Bootstrap::broadcast;
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void barrier() override { exchange({CallKind::barrier, 0, 0, purposes()}, {}); }
  std::unique_ptr<Bootstrap> split(int color, int key) override;
  void abandon(const std::string& why, bool rank_lost) noexcept override {
    if (failure_.empty()) give_up(why, sequence_ + 1);
    if (rank_lost) detail::lose_rank();
  }

 private:
  using Bytes = std::vector<std::byte>;
  class Exchange;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int in_link(int rank) const { return ranks_[index(rank)]; }
  /// Gives every rank's `mine` to every rank. The entry of this rank is empty.
  std::vector<Bytes> exchange(const CallId& call, std::span<const std::byte> mine);
  void require_usable(const char* call);
  struct Sent {
    int peer;
    std::uint64_t message;
  };
  /// Sends to all other ranks.
  std::vector<Sent> send(MessageHead::Type type, std::uint64_t sequence, const CallId& call,
                         std::span<const std::byte> data);
  /// Makes this call and all later ones fail, and tells the other ranks.
  void give_up(const std::string& why, std::uint64_t sequence) noexcept;
  [[noreturn]] void fail(ErrorCode code, const CallId& call, const std::string& why);

  Link& link_;
  std::uint64_t context_, sequence_ = 0;
  std::vector<int> ranks_;
  int rank_;
  Origin origin_;
  std::string failure_;  // the first one: after it the ranks may be in different calls
};

MpiBootstrap::~MpiBootstrap() {
  if (!origin_.is_here()) return;  // a child of fork() has no part in this
  Open::instance().remove(this);
  if (detail::is_finalized()) return;
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
  if (detail::is_finalized())
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {}: MPI is already finalised", call, rank_));
  try {
    throw_if_interrupted();
  } catch (const std::exception& error) {
    if (failure_.empty()) give_up(detail::gave_up(rank_, error.what()), sequence_ + 1);
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
  if (!origin_.is_here() || detail::is_finalized()) return;
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

/// One rank's side of a call.
class MpiBootstrap::Exchange {
 public:
  Exchange(MpiBootstrap& group, const CallId& call)
      : group_(group),
        call_(call),
        ids_(index(group.size())),
        data_(ids_.size()),
        expired_(ids_.size()),
        deadline_(group.timeout()) {
    ids_[index(group.rank_)] = call;
  }
  std::vector<Bytes> run(std::span<const std::byte> mine);

 private:
  void take();
  void look();
  /// Throws if the call can no longer be completed.
  void examine();
  std::optional<std::string> failure_of(int rank);
  void throw_if_given_up();
  void wait_for_witnesses();
  void throw_if_ended();
  std::vector<int> missing() const;
  /// The missing ranks, and those that have not taken this rank's message.
  std::vector<int> all_missing() const;
  bool is_out(int rank) const { return group_.link_.is_out(group_.in_link(rank)); }
  bool is_complete();

  MpiBootstrap& group_;
  const CallId& call_;
  std::vector<Sent> sent_;  // not taken yet
  std::vector<std::optional<CallId>> ids_;
  std::vector<Bytes> data_;
  std::vector<std::optional<std::uint64_t>> expired_;  // the call in which a rank's time was over
  std::vector<int> left_;
  detail::Deadline deadline_;
  detail::LostRanks lost_;
  std::optional<detail::Deadline> differs_;  // begins when ranks are found in different calls
};

/// Takes the messages of this call that have come, and those that ranks send instead.
void MpiBootstrap::Exchange::take() {
  group_.link_.advance();
  left_.clear();
  for (int rank = 0; rank < group_.size(); ++rank) {
    while (!ids_[index(rank)]) {
      const auto head = group_.link_.next(group_.context_, group_.in_link(rank));
      if (!head || head->type == MessageHead::Type::failed) break;
      if (head->type == MessageHead::Type::left) {
        left_.push_back(rank);
        break;
      }
      detail::Message message = group_.link_.take(group_.context_, group_.in_link(rank));
      if (head->type == MessageHead::Type::expired) {
        expired_[index(rank)] = head->sequence;
      } else if (head->sequence == group_.sequence_) {
        // A message of an earlier call is dropped, because this rank has left that call.
        ids_[index(rank)] = head->call;
        data_[index(rank)] = std::move(message.data);
      }
    }
  }
}

std::vector<int> MpiBootstrap::Exchange::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (!ids_[index(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> MpiBootstrap::Exchange::all_missing() const {
  std::vector<int> ranks = missing();
  for (const Sent& sent : sent_) {
    if (ids_[index(sent.peer)]) ranks.push_back(sent.peer);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool MpiBootstrap::Exchange::is_complete() {
  std::erase_if(sent_, [&](const Sent& sent) { return group_.link_.is_sent(sent.message); });
  return sent_.empty() && missing().empty();
}

void MpiBootstrap::Exchange::look() {
  try {
    group_.throw_if_interrupted();
  } catch (const std::exception& error) {
    if (group_.failure_.empty())
      group_.give_up(detail::gave_up(group_.rank_, error.what()), group_.sequence_);
    throw;
  }
}

std::optional<std::string> MpiBootstrap::Exchange::failure_of(int rank) {
  if (rank == group_.rank_) return std::nullopt;
  return group_.link_.find_failure(group_.context_, group_.in_link(rank), group_.sequence_);
}

void MpiBootstrap::Exchange::throw_if_given_up() {
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto failure = failure_of(rank);
    if (!failure) continue;
    look();  // may know a better reason
    group_.fail(ErrorCode::bootstrap, call_, *failure);
  }
}

void MpiBootstrap::Exchange::examine() {
  throw_if_given_up();
  if (!left_.empty()) {
    look();
    group_.fail(ErrorCode::bootstrap, call_, detail::has_left(left_));
  }
  const auto disagreement = detail::find_disagreement(ids_);
  if (disagreement && !differs_) differs_.emplace(detail::mismatch_grace);
  if (disagreement && (differs_->expired() || deadline_.expired())) {
    look();
    group_.give_up(*disagreement, group_.sequence_);
    throw Error(ErrorCode::mismatch, *disagreement);
  }
  throw_if_ended();
  if (deadline_.expired()) {
    look();
    wait_for_witnesses();
  }
}

/// Throws if the process of a missing rank has ended, whatever the deadline.
void MpiBootstrap::Exchange::throw_if_ended() {
  if (!lost_.is_time()) return;
  const std::vector<int> silent = all_missing();
  const auto lost =
      lost_.among(silent, [&](int rank) { return group_.link_.process(group_.in_link(rank)); });
  if (lost.empty()) return;
  look();  // may know a better reason
  group_.fail(ErrorCode::bootstrap, call_, detail::ended_before(lost, name_of(call_.kind)));
}

/// Time is over. A rank that waits in an earlier call, for one that has stopped between its
/// messages, is not missing. It says so.
void MpiBootstrap::Exchange::wait_for_witnesses() {
  group_.send(MessageHead::Type::expired, group_.sequence_, call_, {});
  const detail::Deadline last(expiry_grace);
  Backoff backoff(detail::bootstrap_pace);
  for (take(); !last.expired(); take()) backoff.pause();
  if (is_complete()) return;
  std::set<int> silent;
  for (const int rank : missing()) {
    if (const auto failure = failure_of(rank)) group_.fail(ErrorCode::bootstrap, call_, *failure);
    if (!expired_[index(rank)]) silent.insert(rank);
  }
  // A rank that is stopped after its own message does not take this rank's.
  for (const Sent& sent : sent_) {
    if (!expired_[index(sent.peer)]) silent.insert(sent.peer);
  }
  if (silent.empty()) {  // all missing ranks wait, too
    const std::vector<int> all = all_missing();
    silent.insert(all.begin(), all.end());
  }
  // Others may be silent because of a rank that is out of action: a rank that waits for it in
  // MPI_Comm_idup can't say so.
  if (std::any_of(silent.begin(), silent.end(), [&](int rank) { return is_out(rank); }))
    std::erase_if(silent, [&](int rank) { return !is_out(rank); });
  group_.fail(
      ErrorCode::bootstrap, call_,
      detail::not_arrived({silent.begin(), silent.end()}, name_of(call_.kind), group_.timeout()));
}

std::vector<MpiBootstrap::Bytes> MpiBootstrap::Exchange::run(std::span<const std::byte> mine) {
  try {
    sent_ = group_.send(MessageHead::Type::call, group_.sequence_, call_, mine);
    Backoff backoff(detail::bootstrap_pace);
    auto looked = std::chrono::steady_clock::now();
    for (take(); !is_complete(); take()) {
      examine();
      if (const auto now = std::chrono::steady_clock::now();
          now - looked >= detail::interrupt_period) {
        look();
        looked = now;
      }
      backoff.pause();
    }
  } catch (const Error& error) {
    if (group_.failure_.empty()) group_.give_up(error.what(), group_.sequence_);  // of MPI
    throw;
  }
  if (const auto disagreement = detail::find_disagreement(ids_))
    throw Error(ErrorCode::mismatch, *disagreement);
  throw_if_given_up();  // this rank may have come too late
  return std::move(data_);
}

std::vector<MpiBootstrap::Bytes> MpiBootstrap::exchange(const CallId& call,
                                                        std::span<const std::byte> mine) {
  require_usable(name_of(call.kind));
  ++sequence_;
  return Exchange(*this, call).run(mine);
}

namespace {

/// Copies a message of a call that both ranks have described alike.
void copy_exactly(void* to, const std::vector<std::byte>& message, std::size_t bytes) {
  if (message.size() != bytes)
    throw Error(ErrorCode::bootstrap,
                fmt::format("a message of {} bytes came where one of {} was expected",
                            message.size(), bytes));
  if (bytes > 0) std::memcpy(to, message.data(), bytes);
}

}  // namespace

void MpiBootstrap::all_gather(const void* in, void* out, std::size_t bytes) {
  detail::check_all_gather(rank_, size(), in, out, bytes);
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
  detail::check_broadcast(rank_, size(), data, bytes, root);
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
  const detail::SplitKey mine{color, key, node(), detail::draw_number()};
  const auto all =
      exchange({CallKind::split, sizeof mine, 0, purposes()}, std::as_bytes(std::span(&mine, 1)));
  std::vector<detail::SplitKey> keys(all.size(), mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank != index(rank_)) copy_exactly(&keys[rank], all[rank], sizeof mine);
  }
  const std::vector<int> members = detail::split_members(keys, rank_);
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(in_link(member));
  const auto place =
      static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  // One number serves all colors, because no two have a rank in common.
  auto part = std::make_unique<MpiBootstrap>(link_, keys[0].drawn, std::move(ranks),
                                             detail::nodes_of(keys, members), place, timeout());
  part->set_parent_ranks(members);
  return part;
}

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap(MPI_Comm comm,
                                              std::optional<std::chrono::nanoseconds> timeout) {
  initialize_mpi();
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
  return std::make_unique<MpiBootstrap>(*meeting.link, meeting.context, std::move(meeting.ranks),
                                        meeting.nodes, rank, limit);
}

}  // namespace plait
