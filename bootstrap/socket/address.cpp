#include "bootstrap/socket/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bootstrap/support.hpp"
#include "core/environment.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

using Family = Endpoint::Family;

/// `address`: of one of the three families, with zeros behind a name.
Endpoint endpoint_of(const sockaddr* address) {
  Endpoint endpoint;
  if (address->sa_family == AF_UNIX) {
    sockaddr_un local{};
    std::memcpy(&local, address, offsetof(sockaddr_un, sun_path) + 1 + endpoint.host.size());
    endpoint.family = Family::local;
    std::memcpy(endpoint.host.data(), local.sun_path + 1, endpoint.host.size());
    return endpoint;
  }
  if (address->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof four);
    endpoint.port = ntohs(four.sin_port);
    std::memcpy(endpoint.host.data(), &four.sin_addr, sizeof four.sin_addr);
  } else {
    sockaddr_in6 six{};
    std::memcpy(&six, address, sizeof six);
    endpoint.family = Family::ipv6;
    endpoint.port = ntohs(six.sin6_port);
    endpoint.scope = six.sin6_scope_id;
    std::memcpy(endpoint.host.data(), &six.sin6_addr, sizeof six.sin6_addr);
  }
  return endpoint;
}

std::string name_of_local(const Endpoint& endpoint) {
  const char* name = reinterpret_cast<const char*>(endpoint.host.data());
  return {name, ::strnlen(name, endpoint.host.size())};
}

/// True if the system knows a way there. Sends nothing.
bool has_route(const Endpoint& endpoint) {
  const SocketAddress address(endpoint);
  const UniqueFd socket =
      new_fd([&] { return ::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
  return socket.valid() && ::connect(socket.get(), address.get(), address.length) == 0;
}

struct Interface {
  std::string name;
  Endpoint address;
};

/// An address of a link means nothing without the number of its interface, which is another one on
/// every machine.
bool is_link_local(const Endpoint& endpoint) {
  return endpoint.family == Family::ipv6 && endpoint.host[0] == 0xfe &&
         (endpoint.host[1] & 0xc0) == 0x80;
}

/// Those that are up and have an internet address: IPv4 addresses first, those of a link last.
std::vector<Interface> own_interfaces() {
  ifaddrs* first = nullptr;
  const StandardFdsTaken taken;
  if (::getifaddrs(&first) != 0) throw_errno("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
      constexpr unsigned usable = IFF_UP | IFF_RUNNING;
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family ||
          (entry->ifa_flags & usable) != usable)
        continue;
      Endpoint address = endpoint_of(entry->ifa_addr);
      address.port = 0;
      interfaces.push_back({entry->ifa_name, address});
    }
  }
  std::stable_partition(interfaces.begin(), interfaces.end(),
                        [](const Interface& one) { return !is_link_local(one.address); });
  return interfaces;
}

/// A list of interfaces in the form that NCCL has introduced: prefixes of names, separated by
/// commas; with "^" in front all but those, with "=" whole names instead of prefixes.
class NameList {
 public:
  explicit NameList(std::string_view text) {
    excludes_ = text.starts_with('^');
    if (excludes_) text.remove_prefix(1);
    exact_ = text.starts_with('=');
    if (exact_) text.remove_prefix(1);
    for (const std::string_view part : split(text, ','))
      if (!part.empty()) names_.emplace_back(part);
  }
  bool takes(std::string_view name) const {
    const bool listed = std::any_of(names_.begin(), names_.end(), [&](const std::string& entry) {
      return exact_ ? name == entry : name.starts_with(entry);
    });
    return listed != excludes_;
  }

 private:
  bool excludes_ = false, exact_ = false;
  std::vector<std::string> names_;
};

std::optional<Endpoint> first_of(const std::vector<Interface>& interfaces, const NameList& names) {
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const auto& one) { return names.takes(one.name); });
  return found == interfaces.end() ? std::nullopt : std::optional(found->address);
}

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  if (endpoint.family == Family::local) return fmt::format("@{}", name_of_local(endpoint));
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(endpoint.family == Family::ipv6 ? AF_INET6 : AF_INET, endpoint.host.data(),
              text.data(), text.size());
  if (endpoint.family == Family::ipv4) return fmt::format("{}:{}", text.data(), endpoint.port);
  if (endpoint.scope == 0) return fmt::format("[{}]:{}", text.data(), endpoint.port);
  return fmt::format("[{}%{}]:{}", text.data(), endpoint.scope, endpoint.port);
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.family == Family::ipv4) return endpoint.host[0] == 127;
  if (endpoint.family == Family::local) return false;
  in6_addr six{};
  std::memcpy(&six, endpoint.host.data(), sizeof six);
  return IN6_IS_ADDR_LOOPBACK(&six);
}

SocketAddress::SocketAddress(const Endpoint& endpoint) {
  if (endpoint.family == Family::local) {
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    const std::string name = name_of_local(endpoint);
    std::memcpy(local.sun_path + 1, name.data(), name.size());  // abstract: a zero in front
    std::memcpy(&storage, &local, sizeof local);
    // The family alone asks the system for a free name.
    length = static_cast<socklen_t>(
        name.empty() ? sizeof(sa_family_t) : offsetof(sockaddr_un, sun_path) + 1 + name.size());
  } else if (endpoint.family == Family::ipv4) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(endpoint.port);
    std::memcpy(&four.sin_addr, endpoint.host.data(), sizeof four.sin_addr);
    std::memcpy(&storage, &four, sizeof four);
    length = sizeof four;
  } else {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(endpoint.port);
    six.sin6_scope_id = endpoint.scope;
    std::memcpy(&six.sin6_addr, endpoint.host.data(), sizeof six.sin6_addr);
    std::memcpy(&storage, &six, sizeof six);
    length = sizeof six;
  }
}

Endpoint choose_own_address(bool may_be_local) {
  const std::vector<Interface> interfaces = own_interfaces();
  for (const char* variable : {"PLAIT_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const auto wanted = environment(variable);
    if (!wanted) continue;
    if (const auto found = first_of(interfaces, NameList(*wanted))) return *found;
    std::vector<std::string> names;
    for (const Interface& one : interfaces)  // one may have several addresses
      if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}={}: no interface that is up has such a name; there are: {}",
                            variable, in_quotes(*wanted), fmt::join(names, ", ")));
  }
  // Bridges and virtual devices have addresses that other machines can't reach.
  std::vector<Interface> global = interfaces;
  std::erase_if(global, [](const Interface& one) { return is_link_local(one.address); });
  for (const char* names : {"ib", "^lo,docker,virbr,veth,br-,cni,flannel", "^lo", "lo"})
    if (const auto found = first_of(global, NameList(names))) return *found;
  if (may_be_local) return {.family = Family::local};
  throw Error(ErrorCode::bootstrap, "no network interface is up, not even the loopback device");
}

bool is_of_another_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid != static_cast<uid_t>(-1) && peer.uid != ::geteuid();
}

bool is_own_address(const Endpoint& endpoint) {
  const std::vector<Interface> all = own_interfaces();
  return std::any_of(all.begin(), all.end(),
                     [&](const Interface& one) { return one.address.host == endpoint.host; });
}

std::string interface_of(const Endpoint& endpoint) {
  for (const Interface& one : own_interfaces())
    if (one.address.host == endpoint.host) return one.name;
  return "";
}

Endpoint resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const StandardFdsTaken taken;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (status != 0)
    throw Error(ErrorCode::bootstrap,
                fmt::format("host {}: {}", in_quotes(host), ::gai_strerror(status)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
      if (entry->ai_family == family) endpoints.push_back(endpoint_of(entry->ai_addr));
  if (endpoints.empty())
    throw Error(ErrorCode::bootstrap, fmt::format("host {}: no internet address", in_quotes(host)));
  for (Endpoint& endpoint : endpoints) endpoint.port = port == 0 ? 9 : port;
  const auto reachable = std::find_if(endpoints.begin(), endpoints.end(), has_route);
  Endpoint chosen = reachable == endpoints.end() ? endpoints.front() : *reachable;
  chosen.port = port;
  return chosen;
}

UniqueFd listen_at(const Endpoint& endpoint) {
  const SocketAddress address(endpoint);
  UniqueFd socket = new_fd([&] {
    return ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  });
  const int on = 1, off = 0;
  if (endpoint.family == Family::ipv6)  // the system's default may differ
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  // A listener that has closed leaves connections in a state that would refuse its port for a
  // minute.
  if (!socket.valid() ||
      (endpoint.port != 0 &&
       ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) ||
      ::bind(socket.get(), address.get(), address.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw_errno(fmt::format("listening at {}", to_text(endpoint)));
  return socket;
}

Endpoint own_end(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    throw_errno("getsockname");
  return endpoint_of(reinterpret_cast<const sockaddr*>(&storage));
}

bool is_itself(int socket, const Endpoint& called) {
  const Endpoint own = own_end(socket);
  return own.port == called.port && own.host == called.host;
}

std::string peer_name(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return "a closed connection";
  return to_text(endpoint_of(reinterpret_cast<const sockaddr*>(&storage)));
}

void prepare_connection(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace plait::detail
