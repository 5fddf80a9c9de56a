#include "test_plugin.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "comm.hpp"
#include "faults.hpp"

namespace plait::test_plugin {
namespace {

std::atomic<Logger> log{nullptr};

/// The content of a listener's handle. `tries` is of the rank that connects.
struct Handle {
  std::uint64_t magic;
  std::uint16_t port;
  int tries;
  void* self;  // null, or where the handle was at the last call
};
constexpr std::uint64_t handle_magic = 0x74736574706c61;

struct ListenComm {
  UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  int tries = 0;
};

Result test(void* of, int* done, int* bytes) {
  auto& request = *static_cast<Request*>(of);
  return request.comm->test(request, done, bytes);
}
Result flush(void* comm, int n, void** data, int* bytes, void** memory, void** request) {
  if (n != 1 || !static_cast<const Memory*>(memory[0])->is_device) return internal_error;
  return static_cast<Comm*>(comm)->flush(static_cast<std::byte*>(data[0]),
                                         static_cast<std::size_t>(bytes[0]), request);
}

Result add_memory(void* comm, void* data, std::size_t bytes, int type, void** memory) {
  const bool is_device = type != host_pointers;
  Fault& left = is_device ? faults.fail_device_register : faults.fail_register;
  if (left >= 0 && left-- <= 0) {
    left = 0;
    return system_error;
  }
  ++faults.registrations;
  const auto& count = static_cast<Comm*>(comm)->registrations;
  *memory = new Memory{static_cast<std::byte*>(data), bytes, is_device, count};
  ++*count;
  return success;
}
Result register_memory(void* comm, void* data, std::size_t bytes, int type, void** memory) {
  return (faults.pointers & type) == 0 ? system_error : add_memory(comm, data, bytes, type, memory);
}
Result register_dma_buf(void* comm, void* data, std::size_t bytes, int type, std::uint64_t offset,
                        int descriptor, void** memory) {
  if ((faults.pointers & dmabuf_pointers) == 0 || type != device_pointers) return invalid_usage;
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  if (size < 0 || offset + bytes > static_cast<std::uint64_t>(size)) return invalid_argument;
  ++faults.dma_bufs;
  return add_memory(comm, data, bytes, type, memory);
}
Result deregister_memory(void*, void* memory) {
  --*static_cast<Memory*>(memory)->count;
  delete static_cast<Memory*>(memory);
  --faults.registrations;
  return success;
}
bool is_device(int device) { return device >= 0 && device < faults.devices; }
template <class Of>
Result destroy(void* comm) {
  delete static_cast<Of*>(comm);
  return success;
}

}  // namespace

Result start(Logger logger) {
  log = logger;
  if (faults.fail_init != 0) return system_error;
  logger(log_version, ~0UL, "test_plugin.cpp", 1, "%s has %d devices", "PlaitTest",
         faults.devices.load());
  return success;
}
void count_context(int change) { faults.contexts += change; }

Result fill(int device, Properties8& properties) {
  struct Texts {
    char name[16], path[64];
  };
  static const auto all = [] {
    auto texts = std::make_unique<std::array<Texts, 8>>();
    int i = 0;
    for (auto& [name, path] : *texts) {
      std::snprintf(name, sizeof name, i == 0 ? "loopback" : "loopback%d", i);
      std::snprintf(path, sizeof path, "/sys/devices/pci0000:%d0/0000:%d0:01.0", i, i);
      ++i;
    }
    return texts;
  }();
  if (!is_device(device)) return invalid_argument;
  auto& [name, path] = all->at(static_cast<std::size_t>(device));
  properties.name = name;
  properties.pci_path = path;
  properties.pointer_support = faults.pointers;
  properties.speed = 80'000;
  properties.latency = 2.5F;
  properties.most_comms = 1000;
  properties.most_receives = 1;
  return success;
}
const MemoryCalls& memory_calls() {
  static const MemoryCalls calls{register_memory, register_dma_buf, deregister_memory};
  return calls;
}
const RequestCalls& request_calls() {
  static const RequestCalls calls{
      flush, test, destroy<Comm>, destroy<Comm>, destroy<ListenComm>, nullptr, nullptr};
  return calls;
}

Result devices(int* number) {
  *number = faults.devices;
  return success;
}

Result listen(int device, void* to, void** comm) {
  if (!is_device(device)) return invalid_argument;
  faults.used_devices |= 1 << device;
  auto listener = std::make_unique<ListenComm>();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  const int fd = listener->socket.get();
  if (::bind(fd, name, length) != 0 || ::listen(fd, 64) != 0 ||
      ::getsockname(fd, name, &length) != 0)
    return system_error;
  const Handle handle{handle_magic, ntohs(address.sin_port), 0, nullptr};
  std::memcpy(to, &handle, sizeof handle);
  *comm = listener.release();
  return success;
}

Result connect(int device, void* of, void** comm) {
  *comm = nullptr;
  if (!is_device(device)) return invalid_argument;
  auto& handle = *static_cast<Handle*>(of);
  if (handle.magic != handle_magic) return internal_error;
  if (handle.self != nullptr && handle.self != of) return internal_error;  // it was moved
  handle.self = of;
  if (handle.tries++ < faults.null_connects) return success;
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(handle.port);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return remote_error;
  *comm = new Comm(socket.release(), true);
  return success;
}

Result accept(void* of, void** comm, void**) {
  *comm = nullptr;
  auto& listener = *static_cast<ListenComm*>(of);
  if (listener.tries++ % (faults.null_connects + 1) != faults.null_connects) return success;
  UniqueFd socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() < 0) return errno == EAGAIN ? success : system_error;
  *comm = new Comm(socket.release(), false);
  return success;
}

Result send(void* comm, void* data, std::size_t bytes, void* memory, void** request) {
  return receive(comm, 1, data, bytes, memory, request);
}
Result receive(void* comm, int n, void* data, std::size_t bytes, void* memory, void** request) {
  if (n != 1 || memory == nullptr) return internal_error;
  return static_cast<Comm*>(comm)->start(data, bytes, *static_cast<const Memory*>(memory), request);
}

}  // namespace plait::test_plugin
