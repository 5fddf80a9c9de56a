// An exchange of descriptors in which the peers, and other programs of the same user, send any
// bytes and any descriptors.
//
// The target is all the other processes. It hands the rank under test what a bootstrap would,
// connects to its socket, accepts its connections, and between two steps of the exchange does what
// the input says: connects, closes, sends letters that are right, wrong, too long or empty, with no
// descriptor or several. Then the peers that the input left alone send what they should.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/support.hpp"
#include "core/process_space.hpp"
#include "descriptors.hpp"
#include "symm_mem/descriptor_exchange.hpp"
#include "symm_mem/descriptor_letter.hpp"
#include "target.hpp"

namespace {

using plait::DescriptorLetter;
using plait::ExchangeAddress;
using plait::UniqueFd;
using plait::fuzz::Descriptors;
using plait::fuzz::FileId;
using plait::fuzz::id_of;
using plait::fuzz::make_memory_file;
using plait::fuzz::require;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

/// A thread that ends may have to close the last of them (symm_mem/stranger_sockets.hpp).
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

struct InputEnds {};  // thrown out of the exchange

/// The other ranks and programs.
class World final : public plait::Bootstrap {
 public:
  explicit World(plait::fuzz::Bytes& bytes)
      : bytes_(bytes), size_(2 + bytes.next() % 3), rank_(bytes.next() % size_) {
    set_timeout(std::chrono::nanoseconds::zero());
    plait::BootstrapHooks::set_interrupt(*this, [this] { between_steps(); });
    ::getrlimit(RLIMIT_NOFILE, &limit_);
    honest_.resize(count());
    acceptable_.resize(count());
    for (std::size_t peer = 0; peer < count(); ++peer) {
      honest_[peer] = make_memory_file();
      acceptable_[peer].push_back(id_of(honest_[peer].get()));
    }
  }
  ~World() override { restore_limit(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void broadcast(void*, std::size_t, int) override {
    require(false, "an exchange broadcasts nothing");
  }
  void barrier() override { require(false, "an exchange has no barrier"); }
  std::unique_ptr<Bootstrap> split(int, int) override { return nullptr; }

  /// The descriptors that the exchange handed out.
  void check(const std::vector<UniqueFd>& result) const;
  bool is_spoilt() const { return spoilt_; }
  Descriptors& descriptors() { return descriptors_; }
  void close() {
    ends_.clear();
    listeners_.clear();
    honest_.clear();
    descriptors_.close();
  }

 private:
  struct End {
    UniqueFd socket;
    int peer;  // the rank whose socket the rank under test has connected to; -1: it was connected
               // to
  };
  std::size_t count() const { return static_cast<std::size_t>(size_); }
  UniqueFd& listener(int peer) { return listeners_[static_cast<std::size_t>(peer)]; }
  ExchangeAddress address_of(int peer);
  void accept();
  End* connect();
  void take_room();
  void call_and_go();
  void between_steps();
  void act();
  void send(End& end);
  void send_what_is_due();
  bool put(const End& end, std::span<const std::byte> message, std::span<const std::byte> control);
  void put_letter(const End& end, int peer);
  void restore_limit() const { ::setrlimit(RLIMIT_NOFILE, &limit_); }

  plait::fuzz::Bytes& bytes_;
  int size_, rank_;
  int gathers_ = 0;
  ExchangeAddress target_{};
  std::vector<UniqueFd> listeners_;  // of the ranks below
  std::vector<End> ends_;
  std::vector<UniqueFd> honest_;                 // what each rank should send
  std::vector<std::vector<FileId>> acceptable_;  // what came with a letter of each rank's
  bool spoilt_ = false;                          // the exchange need not succeed
  int steps_after_ = 0;
  Descriptors descriptors_;
  rlimit limit_{};
};

ExchangeAddress World::address_of(int peer) {
  ExchangeAddress address = target_;
  address.nonce = target_.nonce + 1 + static_cast<std::uint64_t>(peer);
  if (peer > rank_) return address;
  listeners_.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = sizeof address.name;
  auto* name = reinterpret_cast<sockaddr*>(&address.name);
  require(::bind(listener(peer).get(), name, sizeof(sa_family_t)) == 0 &&
              ::getsockname(listener(peer).get(), name, &length) == 0 &&
              ::listen(listener(peer).get(), 4) == 0,
          "a socket can listen");
  address.length = length;
  return address;
}

/// First the addresses are gathered, with all of them bound, then whether connecting went well,
/// then the outcome.
void World::all_gather(const void* in, void* out, std::size_t bytes) {
  restore_limit();
  std::memset(out, 0, bytes * count());
  const auto place = [&](int peer) {
    return static_cast<std::byte*>(out) + static_cast<std::size_t>(peer) * bytes;
  };
  if (++gathers_ == 1) {
    require(bytes == sizeof target_, "addresses are gathered");
    std::memcpy(&target_, in, sizeof target_);
    for (int peer = 0; peer < size_; ++peer) {
      const ExchangeAddress address = peer == rank_ ? target_ : address_of(peer);
      std::memcpy(place(peer), &address, sizeof address);
    }
    act();  // callers may be there before the ranks know each other
    return;
  }
  std::memcpy(place(rank_), in, bytes);
  if (gathers_ == 2) accept();
}

void World::accept() {
  for (int peer = 0; peer < rank_; ++peer) {
    UniqueFd connection(
        ::accept4(listener(peer).get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) ends_.push_back({std::move(connection), peer});
    else spoilt_ = true;
  }
}

World::End* World::connect() {
  UniqueFd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&target_.name),
                target_.length) != 0)
    return nullptr;
  ends_.push_back({std::move(connection), -1});
  return &ends_.back();
}

void World::between_steps() {
  restore_limit();
  if (!bytes_.empty()) return act();
  if (++steps_after_ == 1) return spoilt_ ? call_and_go() : send_what_is_due();
  if (spoilt_) throw InputEnds();
  require(steps_after_ < 2000, "letters that are right arrive, whatever else is sent");
}

/// No descriptor can be taken in the next step: the control data of a letter come without it.
void World::take_room() {
#ifndef PLAIT_FUZZ_SANITIZED
  // Not under UndefinedBehaviorSanitizer: it asks through a pipe which memory it may read, and
  // takes a failure for a no.
  const rlimit none{0, limit_.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
#endif
  spoilt_ = true;
}

/// So that the next step does not wait until it has been idle for long.
void World::call_and_go() {
  if (connect() != nullptr) ends_.pop_back();
}

/// Until the input pauses, or ends.
void World::act() {
  while (!bytes_.empty()) {
    const unsigned what = bytes_.next() % 8;
    if (what == 4) return call_and_go();
    if (what == 2 || ends_.empty()) {
      if (ends_.size() < 32) connect();
      continue;
    }
    if (what == 5) {
      take_room();
      return;
    }
    const auto end = ends_.begin() + bytes_.next() % static_cast<std::ptrdiff_t>(ends_.size());
    if (what == 3) {
      spoilt_ = spoilt_ || end->peer >= 0;
      ends_.erase(end);
    } else {
      send(*end);
    }
  }
}

bool World::put(const End& end, std::span<const std::byte> message,
                std::span<const std::byte> control) {
  iovec data{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.empty() ? nullptr : const_cast<std::byte*>(control.data());
  header.msg_controllen = control.size();
  return ::sendmsg(end.socket.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/// A letter as the input has it, and up to two parts of control data.
void World::send(End& end) {
  constexpr std::size_t lengths[] = {sizeof(DescriptorLetter),     0,
                                     sizeof(DescriptorLetter) + 1, 1,
                                     sizeof(DescriptorLetter) - 1, 300};
  constexpr std::int32_t senders[] = {
      0, 1, 2, 3, 4, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  constexpr std::int32_t amounts[] = {1, 0, 2, -1};
  constexpr std::size_t descriptors[] = {1, 0, 2, 3, 40};
  constexpr int parts[] = {1, 0, 2};
  DescriptorLetter letter{target_.nonce, bytes_.one_of(senders), bytes_.one_of(amounts)};
  if (bytes_.next() % 4 == 3) letter.nonce ^= bytes_.word();
  std::vector<std::byte> message(bytes_.one_of(lengths));
  std::copy_n(std::as_bytes(std::span(&letter, 1)).begin(), std::min(message.size(), sizeof letter),
              message.begin());
  for (std::size_t i = sizeof letter; i < message.size(); ++i)
    message[i] = std::byte{bytes_.next()};

  std::vector<std::byte> control;
  std::optional<int> first;
  for (int part = bytes_.one_of(parts); part > 0; --part) {
    std::vector<int> numbers(bytes_.one_of(descriptors));
    for (int& number : numbers) {  // an end, too: it may be sent over itself
      const unsigned which = bytes_.next();
      number = which % 16 == 15 ? ends_[which / 16 % ends_.size()].socket.get()
                                : descriptors_.get(which);
    }
    if (!numbers.empty() && !first) first = numbers.front();
    cmsghdr header{};
    header.cmsg_level = SOL_SOCKET;
    header.cmsg_type = SCM_RIGHTS;
    header.cmsg_len = CMSG_LEN(numbers.size() * sizeof(int));
    const std::size_t at = control.size();
    control.resize(at + CMSG_SPACE(numbers.size() * sizeof(int)));
    std::memcpy(control.data() + at, &header, sizeof header);
    std::ranges::copy(std::as_bytes(std::span(numbers)),
                      control.begin() + static_cast<std::ptrdiff_t>(at + CMSG_LEN(0)));
  }
  if (!put(end, message, control)) return;
  if (end.peer >= 0) spoilt_ = true;
  const auto read = plait::parse_letter(message, target_.nonce, rank_, size_);
  if (!read || (end.peer >= 0 ? read->sender != end.peer : read->sender < rank_)) return;
  spoilt_ = true;
  if (first && read->descriptors == 1)
    acceptable_[static_cast<std::size_t>(read->sender)].push_back(id_of(*first));
}

/// Sends for the peers that the input did not speak for.
void World::send_what_is_due() {
  if (spoilt_) return;
  for (const End& end : ends_)
    if (end.peer >= 0) put_letter(end, end.peer);
  for (int peer = rank_ + 1; peer < size_; ++peer) {
    const End* end = connect();
    require(end != nullptr, "a rank listens until it has all letters");
    put_letter(*end, peer);
  }
}

void World::put_letter(const End& end, int peer) {
  const DescriptorLetter letter{target_.nonce, peer, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  cmsghdr header{};
  header.cmsg_level = SOL_SOCKET;
  header.cmsg_type = SCM_RIGHTS;
  header.cmsg_len = CMSG_LEN(sizeof(int));
  const int number = honest_[static_cast<std::size_t>(peer)].get();
  std::memcpy(control.data(), &header, sizeof header);
  std::memcpy(control.data() + CMSG_LEN(0), &number, sizeof number);
  require(put(end, std::as_bytes(std::span(&letter, 1)), control), "a letter can be sent");
}

void World::check(const std::vector<UniqueFd>& result) const {
  require(result.size() == count(), "every rank has an entry");
  for (int peer = 0; peer < size_; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const UniqueFd& fd = result[at];
    if (peer == rank_) require(!fd.valid(), "a rank has no descriptor of its own");
    else if (!spoilt_)
      require(fd.valid() && id_of(fd.get()) == acceptable_[at].front(),
              "a descriptor is the one that was sent");
    else if (fd.valid())
      require(std::find(acceptable_[at].begin(), acceptable_[at].end(), id_of(fd.get())) !=
                  acceptable_[at].end(),
              "a descriptor came with a letter of its rank's");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::ptrdiff_t before = open_descriptors();
  {
    plait::fuzz::Bytes bytes(data, size);
    World world(bytes);
    try {
      const UniqueFd mine = make_memory_file();
      const bool succeeds =
          plait::fuzz::succeeds([&] { world.check(exchange_descriptors(world, mine)); });
      require(succeeds || world.is_spoilt(), "an exchange succeeds if its ranks do as they should");
    } catch (const InputEnds&) {
    }
    world.close();
    require(comes_true([&] { return world.descriptors().all_closed(); }),
            "what is received is closed, too, or handed out");
  }
  require(comes_true([&] { return open_descriptors() == before; }),
          "an exchange leaves no descriptor open");
  return 0;
}
