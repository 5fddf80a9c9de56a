// Every rank binds a socket to a name that the kernel picks, and the ranks gather the names over
// the bootstrap. In each pair, the higher rank connects to the lower one. Both ask the kernel which
// process is at the other end (SO_PEERCRED) before they send or receive anything.
//
// Any process on the machine can see the names in /proc/net/unix, connect, and put descriptors into
// the socket. So a rank receives nothing from a stranger, and closes the stranger's connections
// without waiting (stranger_sockets.hpp). A stranger may bind a name whose owner is gone: the rank
// that connects finds out before it sends.
//
// Two other ways are not taken. /proc/PID/fd opens files anew, which neither exported CUDA memory
// nor sockets allow. pidfd_getfd needs the right to trace the peer, which Yama gives to ancestors
// only. Both need PIDs that mean the same to all ranks.
#include "symm_mem/descriptor_exchange.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/process_state.hpp"
#include "bootstrap/support.hpp"
#include "core/process_space.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "symm_mem/descriptor_letter.hpp"
#include "symm_mem/stranger_sockets.hpp"

namespace plait {
namespace {

using Text = decltype(ExchangeAddress::failure);

std::optional<ucred> owner_of(int socket) {
  ucred owner{};
  socklen_t length = sizeof owner;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &owner, &length) != 0) return std::nullopt;
  return owner;
}

UniqueFd unix_socket() {
  return new_fd([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}
bool is_full(int error) { return error == EMFILE || error == ENFILE; }

/// One rank's side of an exchange. Only an interrupt of the bootstrap's calls throws here. A rank
/// that fails tells its peers and goes on, so they need not wait for it, and all ranks hear of the
/// failure at the end.
class Exchange {
 public:
  Exchange(int rank, int size, const UniqueFd& mine)
      : rank_(rank), size_(size), mine_(mine), peers_(index(size)) {
    peers_[index(rank)].sent = peers_[index(rank)].received = true;
  }
  ~Exchange() { close_listener(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // The steps. Between them, the ranks tell each other how the step went, because a rank that can't
  // reach its peers could not tell them itself.
  ExchangeAddress open() {
    const auto listen = [&](ExchangeAddress& address) {
      if (::fcntl(mine_.get(), F_GETFD) < 0)
        return fail("passed descriptor {}, which is not open", mine_.get());
      if (::getrandom(&nonce_, sizeof nonce_, 0) != sizeof nonce_)
        return fail("can't draw a number: {}", std::strerror(errno));
      if (size_ == 1) return;
      listener_ = unix_socket();
      if (!listener_.valid()) return fail_without_socket(errno, "can't create a socket");
      address.name.sun_family = AF_UNIX;
      const auto* name = reinterpret_cast<const sockaddr*>(&address.name);
      // The name is the family alone, so the kernel picks a free abstract name.
      if (::bind(listener_.get(), name, sizeof(sa_family_t)) != 0)
        return fail("can't bind its socket: {}", std::strerror(errno));
      socklen_t length = sizeof address.name;
      // A long queue, because strangers may stand in it, too.
      if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address.name), &length) !=
              0 ||
          ::listen(listener_.get(), SOMAXCONN) != 0)
        return fail("can't listen at its socket: {}", std::strerror(errno));
      address.length = length;
    };
    ExchangeAddress address{};
    listen(address);
    address.process = static_cast<std::int32_t>(::getpid());
    address.process_space = process_space();
    address.nonce = nonce_;
    address.failure = as_text<Text>(failure_);
    return address;
  }
  void connect(std::vector<ExchangeAddress> addresses) {
    addresses_ = std::move(addresses);
    for (int peer = 0; peer < rank_; ++peer) connect_to(peer);
    strangers_.dispose();
  }
  /// Returns false if time is over or a rank has ended. `failure` says which. Nothing blocks: a
  /// rank connects, accepts, sends and receives as much as it can, so no two ranks wait for each
  /// other.
  bool run(const Bootstrap& bootstrap) {
    const detail::Deadline deadline(bootstrap.timeout());
    detail::LostRanks lost;
    for (;;) {
      step();
      if (!failure_.empty()) hang_up();
      if (!failure_.empty() || missing().empty()) return true;
      BootstrapHooks::throw_if_interrupted(bootstrap);
      if (deadline.expired()) report_missing(bootstrap.timeout());
      else if (lost.is_time()) report_ended(lost);
      if (!failure_.empty()) {
        hang_up();
        return false;
      }
      wait(deadline, static_cast<int>(detail::interrupt_period.count()));
    }
  }
  const std::string& failure() const { return failure_; }
  std::vector<UniqueFd> take() {
    std::vector<UniqueFd> result;
    for (Peer& peer : peers_) result.push_back(std::move(peer.result));
    return result;
  }

 private:
  struct Peer {
    UniqueFd connection;
    bool sent = false, received = false;
    UniqueFd result;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!failure_.empty()) return;  // the first one is the cause
    failure_ = fmt::format("exchange_descriptors: rank {} {}", rank_,
                           fmt::format(format, std::forward<Args>(args)...));
  }
  void fail_for_descriptors(const std::string& what) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    fail("{}: is its limit of {} open files reached?", what, limit.rlim_cur);
  }
  void fail_without_socket(int error, const std::string& what) {
    if (is_full(error)) fail_for_descriptors(what);
    else fail("{}: {}", what, std::strerror(error));
  }
  /// Judges by the process at the other end, as the kernel knows it: it belongs to this user and,
  /// where PIDs mean the same to both ranks, has the PID in `address`.
  bool may_be(const ucred& owner, const ExchangeAddress& address) const {
    if (owner.uid != ::geteuid()) return false;
    const std::uint64_t space = addresses_[index(rank_)].process_space;
    return space == 0 || space != address.process_space || owner.pid == address.process;
  }

  void step() {
    for (int peer = 0; peer < rank_; ++peer)  // again, if a queue was full
      if (!peers_[index(peer)].connection.valid() && !peers_[index(peer)].sent) connect_to(peer);
    accept_callers();
    hear_callers();
    for (int peer = 0; peer < size_; ++peer)
      if (peers_[index(peer)].connection.valid()) serve(peer);
    strangers_.dispose();
  }
  void connect_to(int peer) {
    const ExchangeAddress& address = addresses_[index(peer)];
    UniqueFd connection = unix_socket();
    if (!connection.valid()) {
      if (passes(errno)) return;
      return fail_without_socket(errno, fmt::format("can't connect to rank {}", peer));
    }
    if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address.name),
                  address.length) != 0) {
      const int error = errno;
      if (passes(error)) return;  // EAGAIN: its queue is full
      if (error == ECONNREFUSED && is_ending(peer)) return fail_for_ended({peer});
      return fail("can't connect to rank {}: {}{}", peer, std::strerror(error),
                  error == ECONNREFUSED
                      ? ": it has ended or failed, or has another network namespace, and "
                        "then needs another PLAIT_NODE"
                      : "");
    }
    const auto owner = owner_of(connection.get());
    if (owner && may_be(*owner, address)) {
      peers_[index(peer)].connection = std::move(connection);
      return;
    }
    strangers_.add(std::move(connection));
    fail(
        "refuses the socket of rank {} (process {}): it belongs to process {} of user {}. Ranks of "
        "different users need different values of PLAIT_NODE",
        peer, address.process, owner ? owner->pid : 0, owner ? static_cast<long>(owner->uid) : -1);
  }
  void accept_callers() {
    // After this many, the peers have their turn, however many strangers are queueing.
    constexpr std::size_t most_at_once = 64;
    while (listener_.valid() && strangers_.size() < most_at_once) {
      UniqueFd caller = accept_from(listener_);
      if (!caller.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (passes(errno)) return;
        return is_full(errno) ? fail_for_descriptors("can't take the descriptor of a rank above it")
                              : fail("can't accept a connection: {}", std::strerror(errno));
      }
      const auto owner = owner_of(caller.get());
      const bool ours =
          owner && std::any_of(addresses_.begin() + rank_ + 1, addresses_.end(),
                               [&](const ExchangeAddress& a) { return may_be(*owner, a); });
      if (ours) callers_.push_back(std::move(caller));
      else strangers_.add(std::move(caller));
    }
  }
  void hear_callers() {
    std::erase_if(callers_, [&](UniqueFd& caller) {
      auto received = receive(caller);
      if (!received) return false;
      auto& [letter, descriptor] = *received;
      const auto owner = owner_of(caller.get());
      if (!letter || letter->sender < rank_ || peers_[index(letter->sender)].connection.valid() ||
          peers_[index(letter->sender)].received || !owner ||
          !may_be(*owner, addresses_[index(letter->sender)])) {
        strangers_.add(std::move(caller));
        if (descriptor.valid()) strangers_.add(std::move(descriptor));
        return true;
      }
      peers_[index(letter->sender)].connection = std::move(caller);
      take_letter(letter->sender, *letter, std::move(descriptor));
      return true;
    });
  }
  /// Sends to a connected peer and takes its letter.
  void serve(int rank) {
    Peer& peer = peers_[index(rank)];
    if (!peer.sent) send_to(rank);
    if (!peer.received) {
      auto received = receive(peer.connection);
      if (!received) return;
      auto& [letter, descriptor] = *received;
      if (letter && letter->sender == rank) take_letter(rank, *letter, std::move(descriptor));
      else give_up(rank);  // it has ended, or failed, which it reports
    }
    if (peer.sent && peer.received) peer.connection = UniqueFd();
  }
  void send_to(int rank) {
    const DescriptorLetter letter{addresses_[index(rank)].nonce, rank_, 1};
    Peer& peer = peers_[index(rank)];
    const int error = send_letter(peer.connection, letter, mine_) ? 0 : errno;
    if (passes(error)) return;
    peer.sent = true;  // or the peer has failed or ended: its letter may still be there
    if (error != 0 && error != EPIPE && error != ECONNRESET && error != ENOTCONN)
      fail("can't send its descriptor to rank {}: {}", rank, std::strerror(error));
  }
  std::optional<ReceivedLetter> receive(const UniqueFd& connection) const {
    return receive_letter(connection, nonce_, rank_, size_);
  }
  void take_letter(int rank, const DescriptorLetter& letter, UniqueFd descriptor) {
    Peer& peer = peers_[index(rank)];
    peer.received = true;
    if (letter.descriptors == 0) return give_up(rank);  // its sender reports why
    if (!descriptor.valid())
      return fail_for_descriptors(fmt::format("can't take the descriptor of rank {}", rank));
    peer.result = std::move(descriptor);
  }
  /// This rank has nothing more to exchange with the peer.
  void give_up(int rank) { peers_[index(rank)].sent = peers_[index(rank)].received = true; }
  /// Closes this rank's ends, so peers that wait for it see the end and go on to hear why.
  void hang_up() {
    close_listener();
    for (Peer& peer : peers_) peer.connection = UniqueFd();
  }
  /// Waits until something can be received. A poll can't wait for room in a peer's queue, so that
  /// is tried again every millisecond.
  void wait(const detail::Deadline& deadline, int most) const {
    std::vector<pollfd> waiting;
    for (int peer = 0; peer < size_; ++peer) {
      const Peer& other = peers_[index(peer)];
      if (!other.sent && (peer < rank_ || other.connection.valid())) most = 1;
      if (other.connection.valid()) waiting.push_back({other.connection.get(), POLLIN, 0});
    }
    for (const UniqueFd& caller : callers_) waiting.push_back({caller.get(), POLLIN, 0});
    if (listener_.valid()) waiting.push_back({listener_.get(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), deadline.milliseconds_left(most));
  }
  void close_listener() {
    if (!listener_.valid()) return;
    strangers_.shut(std::exchange(listener_, UniqueFd()));
    for (UniqueFd& caller : callers_) strangers_.add(std::move(caller));
    callers_.clear();
    strangers_.dispose();
  }
  void report_missing(std::chrono::nanoseconds limit) {
    std::vector<int> silent = ranks_where([](const Peer& peer) { return !peer.received; });
    std::vector<int> full = ranks_where([](const Peer& peer) { return !peer.sent; });
    // Others may be missing because they wait for a stopped rank in the bootstrap's last call.
    const auto is_out = [&](int peer) { return detail::is_out_of_action(process_of(peer)); };
    for (std::vector<int>* const ranks : {&silent, &full}) {
      if (std::any_of(ranks->begin(), ranks->end(), is_out))
        std::erase_if(*ranks, [&](int peer) { return !is_out(peer); });
    }
    if (!silent.empty())
      return fail("got no descriptor from {} within {}", detail::list_ranks(silent),
                  detail::in_seconds(limit));
    fail("could not hand its descriptor to {} within {}", detail::list_ranks(full),
         detail::in_seconds(limit));
  }
  template <class Condition>
  std::vector<int> ranks_where(Condition holds) const {
    std::vector<int> ranks;
    for (int peer = 0; peer < size_; ++peer)
      if (holds(peers_[index(peer)])) ranks.push_back(peer);
    return ranks;
  }
  std::vector<int> missing() const {
    return ranks_where([](const Peer& peer) { return !peer.sent || !peer.received; });
  }
  std::int32_t process_of(int peer) const {
    return detail::visible_process(addresses_[index(peer)].process,
                                   addresses_[index(peer)].process_space);
  }
  void report_ended(detail::LostRanks& lost) {
    const auto ended =
        lost.among(missing(), [&](int peer) { return detail::has_ended(process_of(peer)); });
    if (!ended.empty()) fail_for_ended(ended);
  }
  void fail_for_ended(const std::vector<int>& ended) {
    // A rank that ended after it had sent its descriptor is why the others have given up.
    std::vector<int> before;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && peers_[index(peer)].received && detail::has_ended(process_of(peer)))
        before.push_back(peer);
    if (!before.empty())
      return fail("waits in vain: {} ended, and then {} sent no descriptor",
                  detail::list_ranks(before), detail::list_ranks(ended));
    fail("got no descriptor from {}: {} ended", detail::list_ranks(ended),
         ended.size() == 1 ? "it has" : "they have");
  }
  /// A process that ends closes its sockets some time before it counts as ended.
  bool is_ending(int peer) const {
    const detail::Deadline soon(std::chrono::milliseconds(200));
    while (!detail::has_ended(process_of(peer))) {
      if (soon.expired()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  int rank_, size_;
  const UniqueFd& mine_;
  UniqueFd listener_;
  std::uint64_t nonce_ = 0;
  std::vector<ExchangeAddress> addresses_;
  std::vector<Peer> peers_;
  std::vector<UniqueFd> callers_;  // of this user; the letter of each will tell its rank
  StrangerSockets strangers_;
  std::string failure_;
};

/// Tells all ranks this rank's failure, if any. All ranks throw the failure of the lowest rank that
/// has one. Waits for all ranks.
void throw_first(Bootstrap& bootstrap, const std::string& failure) {
  for (const Text& text : bootstrap.all_gather(as_text<Text>(failure)))
    if (text[0] != 0) throw Error(ErrorCode::bootstrap, text.data());
}

}  // namespace

std::vector<UniqueFd> exchange_descriptors(Bootstrap& bootstrap, const UniqueFd& mine) {
  Exchange exchange(bootstrap.rank(), bootstrap.size(), mine);
  std::vector<ExchangeAddress> addresses = bootstrap.all_gather(exchange.open());
  for (const ExchangeAddress& address : addresses)
    if (address.failure[0] != 0) throw Error(ErrorCode::bootstrap, address.failure.data());
  exchange.connect(std::move(addresses));
  throw_first(bootstrap, exchange.failure());
  if (!exchange.run(bootstrap)) {
    // The others hear of it there, without waiting for the missing rank once more.
    BootstrapHooks::abandon(bootstrap, exchange.failure(), false);
    throw Error(ErrorCode::bootstrap, exchange.failure());
  }
  throw_first(bootstrap, exchange.failure());
  return exchange.take();
}

}  // namespace plait
