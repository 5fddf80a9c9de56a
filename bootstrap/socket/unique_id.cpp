#include "bootstrap/socket/unique_id.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait {
namespace detail {
namespace {

struct Layout {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  Endpoint::Family family = Endpoint::Family::ipv4;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;
  std::array<unsigned char, 16> host{};
  Secret secret{};
};
static_assert(std::is_trivially_copyable_v<Layout> && sizeof(Layout) <= UniqueId::size);
constexpr std::array<char, 8> magic{'p', 'l', 'a', 'i', 't', '.', 'i', 'd'};
constexpr std::uint32_t version = 1;

/// The listeners of ids whose rank 0 has not come yet. A child of fork has its parent's, so that
/// rank 0 may be a child.
class Listeners {
 public:
  static Listeners& instance() {
    static auto* listeners = new Listeners;  // never destroyed: ids may be used at any time
    return *listeners;
  }
  void add(const Secret& secret, UniqueFd socket, UniqueFd token) {
    const std::scoped_lock lock(mutex_);
    all_.push_back({secret, std::move(socket), std::move(token)});
  }
  std::optional<UniqueFd> take(const Secret& secret) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [&](const Entry& entry) { return entry.secret == secret; });
    if (found == all_.end()) return std::nullopt;
    Entry entry = std::move(*found);
    all_.erase(found);
    eventfd_t one = 0;
    if (::eventfd_read(entry.token.get(), &one) != 0) return std::nullopt;
    return std::move(entry.socket);
  }

 private:
  Listeners() {
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
  }
  struct Entry {
    Secret secret;
    UniqueFd socket;
    UniqueFd token;  // only one of the processes that have the listener can read it
  };
  std::mutex mutex_;
  std::list<Entry> all_;
};

}  // namespace

UniqueId to_id(const IdContents& contents) {
  const Layout layout{magic,
                      version,
                      contents.root.family,
                      contents.root.port,
                      contents.root.scope,
                      contents.root.host,
                      contents.secret};
  UniqueId id;
  std::memcpy(id.bytes.data(), &layout, sizeof layout);
  return id;
}

IdContents contents_of(const UniqueId& id) {
  Layout layout;
  std::memcpy(&layout, id.bytes.data(), sizeof layout);
  const auto refuse = [](const std::string& why) {
    return Error(ErrorCode::invalid_argument, "the unique id is " + why);
  };
  if (std::all_of(id.bytes.begin(), id.bytes.end(), [](unsigned char byte) { return byte == 0; }))
    throw refuse("empty: make one with UniqueId::create() and hand its bytes to all ranks");
  if (layout.magic != magic) throw refuse("none of Plait's");
  if (layout.version != version)
    throw refuse(
        fmt::format("of version {}, and this library knows version {}", layout.version, version));
  using Family = Endpoint::Family;
  if (layout.family > Family::local || (layout.port == 0) != (layout.family == Family::local))
    throw refuse("damaged");
  return {{layout.family, layout.port, layout.scope, layout.host}, layout.secret};
}

UniqueId create_id_at(const Endpoint& endpoint) {
  IdContents contents{endpoint, {}};
  if (::getrandom(&contents.secret, sizeof contents.secret, 0) != sizeof contents.secret)
    throw_errno("getrandom");
  UniqueFd listener = listen_at(endpoint);
  contents.root = own_end(listener.get());
  UniqueFd token = new_fd([] { return ::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC); });
  if (!token.valid()) throw_errno("eventfd");
  Listeners::instance().add(contents.secret, std::move(listener), std::move(token));
  return to_id(contents);
}

std::optional<UniqueFd> take_listener(const IdContents& contents) {
  return Listeners::instance().take(contents.secret);
}

void discard(const UniqueId& id) {
  if (const auto listener = take_listener(contents_of(id))) ::shutdown(listener->get(), SHUT_RDWR);
}

}  // namespace detail

UniqueId UniqueId::create() { return detail::create_id_at(detail::choose_own_address(true)); }

}  // namespace plait
