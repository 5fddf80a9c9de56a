// A duplicate of the user's communicator keeps Plait's messages from the user's receives. But
// MPI_Comm_idup can't say which rank is missing, and in Open MPI one that never ends stops later
// ones, also of other communicators. So ranks enter it only when they know that all ranks are
// there, and only if no link (link.hpp) has all of them already.
//
// They know it from MPI_Iscatterv on the user's communicator, once with each rank as root. The
// scatter of one rank ends at another rank as soon as both are there, whichever ranks are missing,
// and collective calls are apart from the user's messages. (Where an implementation scatters along
// a tree, ranks behind a missing one count as missing, too.) A receive of the user's with
// MPI_ANY_TAG could take messages with a tag of Plait's. A duplicate of MPI_COMM_WORLD would need
// ranks that have nothing to do with Plait.
//
// There are always two rounds, a greeting and a verdict, also on ranks that have given up. So a
// late rank hears of the failure at once, and a later attempt begins with all ranks at the same
// call. Only a rank that ends or is stopped in MPI_Comm_idup itself must be found by other means:
// the system tells which processes these are, and a heartbeat tells which living ones don't run. (A
// third round can't find them: Open MPI 4 confuses its messages with those of an MPI_Comm_idup that
// is under way.)
#include "bootstrap/mpi/handshake.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "bootstrap/mpi/heartbeat.hpp"
#include "bootstrap/mpi/support.hpp"
#include "bootstrap/process_state.hpp"
#include "core/process_space.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

constexpr const char* this_call = "make_mpi_bootstrap";
constexpr std::uint32_t protocol = 3;  // of the greeting and of the link's messages
/// How long a rank that has waited in vain still waits for the others to say so, too: some may have
/// waited a little less.
constexpr std::chrono::milliseconds grace{200};

using Text = std::array<char, 384>;

struct Greeting {
  std::uint32_t protocol;
  std::int32_t process, heartbeat;  // the PID, and the heartbeat's descriptor
  std::uint64_t process_space;
  std::array<std::uint64_t, 8> links;  // those that have all ranks; 0: none
  std::uint64_t new_link, context;     // those of rank 0 count
  NodeName node;
  Text failure;
};
struct Verdict {
  ErrorCode code;
  Text failure;  // empty: all is well
};

/// Sends one record of every rank to every rank.
template <class Record>
class Round {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  Round(MPI_Comm comm, int rank, int size, const Record& mine)
      : rank_(rank), flight_(std::make_unique<Records>()) {
    const auto ranks = static_cast<std::size_t>(size);
    flight_->sent.assign(ranks, mine);
    flight_->received.resize(ranks);
    flight_->received[static_cast<std::size_t>(rank)] = mine;
    flight_->counts.assign(ranks, static_cast<int>(sizeof(Record)));
    for (int peer = 0; peer < size; ++peer)
      flight_->places.push_back(peer * static_cast<int>(sizeof(Record)));
    flight_->requests.assign(ranks, MPI_REQUEST_NULL);
    int status = MPI_SUCCESS;
    for (int root = 0; root < size && status == MPI_SUCCESS; ++root) {
      const auto at = static_cast<std::size_t>(root);
      void* const to = root == rank ? MPI_IN_PLACE : static_cast<void*>(&flight_->received[at]);
      status =
          MPI_Iscatterv(flight_->sent.data(), flight_->counts.data(), flight_->places.data(),
                        MPI_BYTE, to, sizeof(Record), MPI_BYTE, root, comm, &flight_->requests[at]);
    }
    if (status == MPI_SUCCESS) return;
    abandon(std::move(flight_));
    check(status, this_call, rank);
  }
  ~Round() {
    if (flight_) abandon(std::move(flight_));
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  /// True if all records are there.
  bool advance() { return flight_->is_finished(); }
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < flight_->requests.size(); ++rank) {
      if (flight_->requests[rank] != MPI_REQUEST_NULL && static_cast<int>(rank) != rank_)
        ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
  }
  /// True if the other ranks have this rank's record, as far as MPI tells.
  bool is_taken() const {
    return flight_->requests[static_cast<std::size_t>(rank_)] == MPI_REQUEST_NULL;
  }
  /// The record of `rank`, or null if it has not come.
  const Record* of(std::size_t rank) const {
    return flight_->requests[rank] == MPI_REQUEST_NULL || static_cast<int>(rank) == rank_
               ? &flight_->received[rank]
               : nullptr;
  }
  std::size_t size() const { return flight_->requests.size(); }

 private:
  struct Records final : Flight {
    std::vector<Record> sent, received;
    std::vector<int> counts, places;
  };
  int rank_;
  std::unique_ptr<Records> flight_;
};

/// MPI_Comm_idup under way.
struct Duplicate final : Flight {
  MPI_Comm comm = MPI_COMM_NULL;
};

class Handshake {
 public:
  Handshake(MPI_Comm comm, std::chrono::nanoseconds limit) : comm_(comm), limit_(limit) {
    check(MPI_Comm_rank(comm, &rank_), this_call, rank_);
    check(MPI_Comm_size(comm, &size_), this_call, rank_);
    processes_ = Links::instance().processes_of(comm);
    processes_.resize(static_cast<std::size_t>(size_));
  }

  Meeting run(const std::string& failure) {
    Round<Greeting> greetings(comm_, rank_, size_, greet(failure));
    wait_for_all(greetings, [] { return false; });
    note_processes(greetings);
    try {
      judge(object_to(greetings));
    } catch (const Error& error) {
      if (greetings.missing().empty()) tell_group(greetings, error.what());
      throw;
    }
    MpiLink* link = choose_link(greetings);
    if (link == nullptr) link = &duplicate(greetings);
    Meeting meeting{link, link->ranks_of(comm_).value(), {}, greetings.of(0)->context};
    for (std::size_t rank = 0; rank < greetings.size(); ++rank) {
      std::size_t same = 0;
      while (greetings.of(same)->node != greetings.of(rank)->node) ++same;
      meeting.nodes.push_back(static_cast<int>(same));
    }
    return meeting;
  }

 private:
  Greeting greet(const std::string& failure) const {
    Greeting greeting{.protocol = protocol,
                      .process = static_cast<std::int32_t>(::getpid()),
                      .heartbeat = heartbeat_.descriptor(),
                      .process_space = process_space(),
                      .links = {},
                      .new_link = draw_number(),
                      .context = number_,
                      .node = name_this_node(),
                      .failure = as_text<Text>(failure)};
    const auto links = Links::instance().covering(comm_, greeting.links.size());
    std::copy(links.begin(), links.end(), greeting.links.begin());
    return greeting;
  }

  /// Notes the PIDs of the ranks that have greeted.
  void note_processes(const Round<Greeting>& greetings) {
    const Greeting& mine = *greetings.of(static_cast<std::size_t>(rank_));
    for (std::size_t rank = 0; rank < greetings.size(); ++rank) {
      const Greeting* const other = greetings.of(rank);
      if (other != nullptr && other->node == mine.node)
        processes_[rank] = visible_process(other->process, other->process_space);
    }
  }
  int process_of(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }

  /// The ranks whose records have not come. If all have come and this rank's own is not taken,
  /// those that can't take it.
  template <class Record>
  std::vector<int> awaited(const Round<Record>& round) const {
    std::vector<int> ranks = round.missing();
    for (int rank = 0; rank < size_ && !round.is_taken() && round.missing().empty(); ++rank) {
      if (rank != rank_ && is_out_of_action(process_of(rank))) ranks.push_back(rank);
    }
    return ranks;
  }

  /// Waits until all records have come, `stop` says so, a rank has ended, or the limit is over.
  /// True if all records have come.
  template <class Record, class Stop>
  bool wait_for_all(Round<Record>& round, Stop stop) {
    const Deadline deadline(limit_);
    LostRanks lost;
    Backoff backoff(bootstrap_pace);
    while (!round.advance()) {
      heartbeat_.beat();
      if (stop() || deadline.expired()) return false;
      if (lost.is_time() &&
          !lost.among(awaited(round), [&](int rank) { return has_ended(process_of(rank)); })
               .empty())
        return false;
      backoff.pause();
    }
    return true;
  }

  /// `ranks`: those that a wait was given up for. Names the ones that have ended, else the ones
  /// that are stopped, else all. The rest may be missing only because of those: MPI may not have
  /// delivered the messages with which they gave up.
  std::string say_missing(const std::vector<int>& ranks) const {
    const auto those = [&](bool (*condition)(std::int32_t)) {
      std::vector<int> chosen;
      std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(chosen),
                   [&](int rank) { return condition(process_of(rank)); });
      return chosen;
    };
    if (const auto ended = those(has_ended); !ended.empty()) return ended_before(ended, this_call);
    const auto stopped = those(is_out_of_action);
    return not_arrived(stopped.empty() ? ranks : stopped, this_call, limit_);
  }

  /// Why this rank can't go on, or none if it can.
  std::optional<Error> object_to(Round<Greeting>& greetings) const {
    if (const auto missing = awaited(greetings); !missing.empty())
      return Error(ErrorCode::bootstrap, say_missing(missing));
    for (std::size_t rank = 0; rank < greetings.size(); ++rank) {
      const Greeting& greeting = *greetings.of(rank);
      if (greeting.protocol != protocol)
        return Error(
            ErrorCode::mismatch,
            fmt::format("ranks {} and {} have different versions of the library", rank, rank_));
      if (greeting.failure[0] != 0)
        return Error(ErrorCode::invalid_argument,
                     as_said_by(static_cast<int>(rank), greeting.failure.data()));
    }
    return std::nullopt;
  }

  /// Tells the others, and throws if any rank objects. A silent rank counts as missing only if no
  /// rank objects: otherwise ranks have waited for it already, and an objection says so.
  void judge(const std::optional<Error>& objection) {
    Round<Verdict> verdicts(comm_, rank_, size_,
                            objection ? Verdict{objection->code(), as_text<Text>(objection->what())}
                                      : Verdict{ErrorCode::bootstrap, {}});
    const auto first_objection = [&]() -> const Verdict* {
      for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
        const Verdict* verdict = verdicts.of(rank);
        if (verdict != nullptr && verdict->failure[0] != 0) return verdict;
      }
      return nullptr;
    };
    wait_for_all(verdicts, [&] { return first_objection() != nullptr; });
    if (first_objection() == nullptr && awaited(verdicts).empty()) return;
    const Deadline last(grace);
    Backoff backoff(bootstrap_pace);
    while (!verdicts.advance() && !last.expired()) backoff.pause();
    const Verdict* const first = first_objection();
    const auto missing = awaited(verdicts);
    if (first == nullptr && missing.empty()) return;  // they came at the last moment
    throw Error(first != nullptr ? first->code : ErrorCode::bootstrap,
                fmt::format("{}: {}", this_call,
                            as_said_by(rank_, first != nullptr ? first->failure.data()
                                                               : say_missing(missing))));
  }

  /// A rank that has agreed and misses a verdict may be the only one that does. The ranks that have
  /// all verdicts form the group and wait for this one there, so it tells them there.
  void tell_group(const Round<Greeting>& greetings, std::string_view why) const noexcept {
    try {
      MpiLink* const link = choose_link(greetings);
      if (link == nullptr) return;
      const std::vector<int> ranks = link->ranks_of(comm_).value();
      const std::uint64_t context = greetings.of(0)->context;
      for (int rank = 0; rank < size_; ++rank) {
        if (rank == rank_) continue;
        const int to = ranks[static_cast<std::size_t>(rank)];
        link->send(to, {context, 0, MessageHead::Type::failed, {}},
                   Link::pack_failure(ErrorCode::bootstrap, why));
        link->send(to, {context, 0, MessageHead::Type::left, {}}, {});
      }
      link->advance();
    } catch (const std::exception&) {  // then the others' time will run out
    }
  }

  /// The first of rank 0's links that all ranks have, or null.
  MpiLink* choose_link(const Round<Greeting>& greetings) const {
    for (const std::uint64_t number : greetings.of(0)->links) {
      bool everywhere = number != 0;
      for (std::size_t rank = 0; rank < greetings.size() && everywhere; ++rank) {
        const auto& links = greetings.of(rank)->links;
        everywhere = std::find(links.begin(), links.end(), number) != links.end();
      }
      if (everywhere) return Links::instance().find(number);
    }
    return nullptr;
  }

  MpiLink& duplicate(Round<Greeting>& greetings) {
    auto flight = std::make_unique<Duplicate>();
    check(MPI_Comm_idup(comm_, &flight->comm, &flight->requests.emplace_back(MPI_REQUEST_NULL)),
          this_call, rank_);
    const Deadline deadline(limit_);
    LostRanks lost;
    std::vector<int> all_ranks(processes_.size()), ended;
    std::iota(all_ranks.begin(), all_ranks.end(), 0);
    Backoff backoff(bootstrap_pace);
    while (!flight->is_finished() && !deadline.expired() && ended.empty()) {
      ended = lost.among(all_ranks, [&](int rank) { return has_ended(process_of(rank)); });
      heartbeat_.beat();
      backoff.pause();
    }
    const bool done = flight->is_finished();
    const MPI_Comm copy = flight->comm;
    abandon(std::move(flight));
    if (done)
      return Links::instance().add(
          std::make_unique<MpiLink>(copy, greetings.of(0)->new_link, processes_));
    throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: {}", this_call, rank_,
                                                  say_held_up(greetings, all_ranks)));
  }

  /// Why MPI_Comm_idup does not end: a rank has ended, is stopped, or does not run though it lives.
  std::string say_held_up(const Round<Greeting>& greetings, const std::vector<int>& ranks) const {
    if (std::any_of(processes_.begin(), processes_.end(), is_out_of_action))
      return say_missing(ranks);
    std::vector<int> silent;
    for (const int rank : ranks) {
      const Greeting& other = *greetings.of(static_cast<std::size_t>(rank));
      const auto silence =
          rank == rank_ ? std::nullopt
                        : Heartbeat::silence(process_of(rank), other.heartbeat, other.context);
      if (silence && *silence >= grace) silent.push_back(rank);
    }
    if (!silent.empty())
      return not_arrived(silent, this_call, limit_) +
             ": held up in MPI_Comm_idup, or on the way there";
    return fmt::format(
        "MPI_Comm_idup has not ended within {}: a rank is held up, or MPI by an earlier one that "
        "can't end",
        in_seconds(limit_));
  }

  MPI_Comm comm_;
  std::chrono::nanoseconds limit_;
  int rank_ = 0, size_ = 1;
  std::uint64_t number_ = draw_number();
  Heartbeat heartbeat_{number_};
  std::vector<std::int32_t> processes_;  // PIDs of the ranks; 0: not known here
};

}  // namespace

Meeting meet(MPI_Comm comm, std::chrono::nanoseconds limit, const std::string& failure) {
  return Handshake(comm, limit).run(failure);
}

}  // namespace plait::detail
