#include "symm_mem/descriptor_exchange.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "bootstrap/support.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

/// Drawn by rank 0 for each exchange. The name can be read in /proc/net/unix by anybody; the secret can't, so that nobody else can slip
/// a descriptor in.
struct Ticket {
  std::uint64_t name, secret;
};

/// What travels beside a descriptor.
struct Letter {
  std::uint64_t secret;
  std::int32_t sender;
  std::int32_t descriptors;  // 1, or 0 if the sender could not send it
};

/// An abstract socket address: no file, gone with its process.
struct Address {
  sockaddr_un value{};
  socklen_t length = 0;

  Address(const Ticket& ticket, int rank) {
    value.sun_family = AF_UNIX;
    const std::string name = fmt::format("plait-{:016x}-{}", ticket.name, rank);
    std::copy(name.begin(), name.end(), value.sun_path + 1);  // the leading zero byte makes it abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

/// Space for the control data of one message; strays may carry more descriptors than ours do.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> bytes{};
};

/// All descriptors of a received message, owned at once so that none leaks.
std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> result;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(part) + at, sizeof fd);
      result.emplace_back(fd);
    }
  }
  return result;
}

/// One rank's side of an exchange. Nothing here throws but what interrupts the bootstrap's calls: a rank that fails goes on, so that its
/// peers need not wait for it, and the failure is told to all at the end.
class Exchange {
 public:
  Exchange(int rank, int size, const Ticket& ticket)
      : rank_(rank), size_(size), ticket_(ticket), sent_(index(size)), received_(index(size)), result_(index(size)) {
    sent_[index(rank)] = received_[index(rank)] = true;
  }

  void open(const UniqueFd& mine);
  void run(const UniqueFd& mine, const Bootstrap& bootstrap);
  const std::string& failure() const { return failure_; }
  std::vector<UniqueFd> take() { return std::move(result_); }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!failure_.empty()) return;  // the first one is the cause
    failure_ = fmt::format("exchange_descriptors: rank {} {}", rank_, fmt::format(format, std::forward<Args>(args)...));
  }
  static bool all(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

  void send_what_fits(const UniqueFd& mine);
  int send_to(int peer, const UniqueFd* fd);  // an errno value
  void receive_what_is_there();
  bool receive_one();
  void accept(const Letter& letter, std::vector<UniqueFd> descriptors);
  void report_missing(std::chrono::nanoseconds limit);

  int rank_, size_;
  Ticket ticket_;
  UniqueFd socket_;
  std::vector<bool> sent_, received_;
  std::vector<UniqueFd> result_;
  std::string failure_;
};

void Exchange::open(const UniqueFd& mine) {
  if (::fcntl(mine.get(), F_GETFD) < 0) return fail("passed descriptor {}, which is not open", mine.get());
  socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return fail("can't create a socket: {}", std::strerror(errno));
  const Address address(ticket_, rank_);
  if (::bind(socket_.get(), address.get(), address.length) != 0) fail("can't bind its socket: {}", std::strerror(errno));
}

/// Sending and receiving alternate and neither blocks: a socket's queue holds as few as ten messages, so ranks that send all before they
/// receive could wait for each other.
void Exchange::run(const UniqueFd& mine, const Bootstrap& bootstrap) {
  const detail::Deadline deadline(bootstrap.timeout());
  for (;;) {
    send_what_fits(mine);
    receive_what_is_there();
    const bool all_sent = all(sent_);
    if (all_sent && all(received_)) return;
    bootstrap.throw_if_interrupted();
    if (deadline.expired()) return report_missing(bootstrap.timeout());
    // Room in a peer's queue can't be polled for, so it is tried again every millisecond.
    pollfd waiting{socket_.get(), POLLIN, 0};
    ::poll(&waiting, 1, deadline.milliseconds_left(all_sent ? static_cast<int>(detail::interrupt_period.count()) : 1));
  }
}

void Exchange::send_what_fits(const UniqueFd& mine) {
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;  // every rank begins with another peer, so that queues fill evenly
    if (sent_[index(peer)]) continue;
    const int error = send_to(peer, &mine);
    if (error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS) continue;  // passes
    sent_[index(peer)] = true;
    if (error == 0) continue;
    fail("can't send its descriptor to rank {}: {}", peer, std::strerror(error));
    // A peer that can be reached is told; one that can't (it has died, or has another network namespace) won't reach this rank either.
    if (send_to(peer, nullptr) != 0) received_[index(peer)] = true;
  }
}

int Exchange::send_to(int peer, const UniqueFd* fd) {
  Letter letter{ticket_.secret, rank_, fd != nullptr ? 1 : 0};
  iovec data{&letter, sizeof letter};
  Address address(ticket_, peer);
  Control control;
  msghdr message{};
  message.msg_name = &address.value;
  message.msg_namelen = address.length;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd != nullptr) {
    const int value = fd->get();
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof value);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(part), &value, sizeof value);
  }
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

void Exchange::receive_what_is_there() {
  while (!all(received_) && receive_one()) {
  }
}

/// Returns false if there is nothing to receive.
bool Exchange::receive_one() {
  Letter letter{};
  iovec data{&letter, sizeof letter};
  Control control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const ssize_t bytes = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN) return false;
    fail("can't receive from its socket: {}", std::strerror(errno));
    received_.assign(index(size_), true);
    return false;
  }
  std::vector<UniqueFd> descriptors = take_descriptors(message);
  const bool whole = bytes == sizeof letter && (message.msg_flags & MSG_TRUNC) == 0;
  if (whole && letter.secret == ticket_.secret && letter.sender >= 0 && letter.sender < size_) accept(letter, std::move(descriptors));
  return true;  // what is not ours is dropped
}

void Exchange::accept(const Letter& letter, std::vector<UniqueFd> descriptors) {
  if (received_[index(letter.sender)]) return;
  received_[index(letter.sender)] = true;
  if (letter.descriptors == 0) return;  // its sender reports why
  if (descriptors.size() == 1) {
    result_[index(letter.sender)] = std::move(descriptors.front());
    return;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  fail("can't take the descriptor of rank {}: is its limit of {} open files reached?", letter.sender, limit.rlim_cur);
}

void Exchange::report_missing(std::chrono::nanoseconds limit) {
  std::vector<int> silent, full;
  for (int peer = 0; peer < size_; ++peer) {
    if (!received_[index(peer)]) silent.push_back(peer);
    if (!sent_[index(peer)]) full.push_back(peer);
  }
  if (!silent.empty()) return fail("got no descriptor from {} within {}", detail::list_ranks(silent), detail::in_seconds(limit));
  fail("could not hand its descriptor to {} within {}", detail::list_ranks(full), detail::in_seconds(limit));
}

/// Tells everybody this rank's failure, if any, and throws the first rank's that has one, on all ranks. Waits for all ranks.
void throw_first(Bootstrap& bootstrap, const std::string& failure) {
  using Text = std::array<char, 256>;
  Text mine{};
  std::copy_n(failure.data(), std::min(failure.size(), mine.size() - 1), mine.data());
  for (const Text& text : bootstrap.all_gather(mine)) {
    if (text[0] != 0) throw Error(ErrorCode::bootstrap, text.data());
  }
}

Ticket draw_ticket(Bootstrap& bootstrap) {
  Ticket ticket{};
  if (bootstrap.rank() == 0 && ::getrandom(&ticket, sizeof ticket, 0) != sizeof ticket) {
    throw Error(ErrorCode::bootstrap, fmt::format("exchange_descriptors: rank 0: getrandom: {}", std::strerror(errno)));
  }
  return bootstrap.broadcast(ticket, 0);
}

}  // namespace

std::vector<UniqueFd> exchange_descriptors(Bootstrap& bootstrap, const UniqueFd& mine) {
  Exchange exchange(bootstrap.rank(), bootstrap.size(), draw_ticket(bootstrap));
  exchange.open(mine);
  throw_first(bootstrap, exchange.failure());  // also the barrier between binding a socket and sending to it
  exchange.run(mine, bootstrap);
  throw_first(bootstrap, exchange.failure());  // also keeps the sockets open until all have sent
  return exchange.take();
}

}  // namespace plait
