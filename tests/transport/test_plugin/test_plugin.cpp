#include "test_plugin.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/unique_fd.hpp"

namespace plait::test_plugin {
namespace {

/// A number that tests set or read by its name.
class Fault : public std::atomic<int> {
 public:
  explicit Fault(const char* name, int value = 0) : std::atomic<int>(value) {
    all().emplace(name, this);
  }
  using std::atomic<int>::operator=;
  static std::map<std::string_view, Fault*>& all() {
    static std::map<std::string_view, Fault*> known;
    return known;
  }
};

struct Faults {
  Fault fail_after{"fail_after", -1};       // isend fails after so many messages of its comm
  Fault stalls{"stalls"};                   // no request is done
  Fault null_every{"null_every"};           // each such isend and irecv starts nothing
  Fault null_connects{"null_connects", 3};  // so many calls of connect and accept find nothing
  Fault fail_init{"fail_init"}, fail_register{"fail_register"};
  Fault fail_device_register{"fail_device_register", -1};  // of a device, after so many successes
  Fault pointers{"pointers", host_pointers};
  Fault cuda{"cuda"};  // device memory is that of a GPU, else of the host
  /// The plug-in finds the bytes of device memory so far behind their address, so a test sees who
  /// else touches them.
  Fault device_shift{"device_shift"};
  // Counted, for tests. `device_sends`: messages out of device memory.
  Fault contexts{"contexts"}, comms{"comms"}, registrations{"registrations"}, flushes{"flushes"},
      dma_bufs{"dma_bufs"}, device_sends{"device_sends"};
} faults;

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

struct Memory {
  std::byte* data;
  std::size_t bytes;
  bool is_device;
};

struct Comm;
struct Request {
  Comm* comm;
  std::byte* data;  // of a message from or to device memory: `staged`
  std::size_t room;
  std::uint64_t bytes = 0;  // of the message
  std::size_t moved = 0;    // of the eight bytes of its size and of the message
  bool done = false;
  std::byte* target = nullptr;  // in device memory
  std::vector<std::byte> staged{};
};
struct Comm {
  UniqueFd socket;
  bool sends;
  std::deque<std::unique_ptr<Request>> requests{};
  int started = 0, calls = 0;
  Result failure = success;
  /// Messages that have come for places in device memory. `flush` puts them there, because nothing
  /// else promises that a GPU sees them.
  std::map<std::byte*, std::vector<std::byte>> arrived{};

  Comm(int fd, bool is_sender) : socket(fd), sends(is_sender) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++faults.comms;
  }
  ~Comm() { --faults.comms; }
};

/// One system call. Returns the bytes, 0 if there is no room or nothing has come, or -1 if the
/// other side is gone.
ssize_t move(const Comm& comm, void* data, std::size_t bytes) {
  const ssize_t n = comm.sends ? ::send(comm.socket.get(), data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                               : ::recv(comm.socket.get(), data, bytes, MSG_DONTWAIT);
  if (n > 0) return n;
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/// True once the request is done.
bool advance(Comm& comm, Request& request) {
  constexpr std::size_t head = sizeof request.bytes;
  while (request.moved < head + request.bytes || request.moved < head) {
    const bool in_head = request.moved < head;
    std::byte* const from = in_head ? reinterpret_cast<std::byte*>(&request.bytes) + request.moved
                                    : request.data + (request.moved - head);
    const std::size_t left = (in_head ? head : head + request.bytes) - request.moved;
    const ssize_t n = move(comm, from, left);
    if (n < 0) comm.failure = remote_error;
    if (n <= 0) return false;
    request.moved += static_cast<std::size_t>(n);
    if (request.moved == head && !comm.sends && request.bytes > request.room) {
      comm.failure = invalid_usage;
      return false;
    }
  }
  return true;
}

void advance(Comm& comm) {
  for (const auto& request : comm.requests) {
    if (request->done) continue;
    if (comm.failure != success || !advance(comm, *request)) return;
    request->done = true;
  }
}

/// The functions of the CUDA driver that move bytes, while kernels run and streams are captured.
class Cuda {
 public:
  Cuda() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          library != nullptr ? ::dlsym(library, name) : nullptr);
      if (function == nullptr) std::abort();
    };
    find(exchange_mode_, "cuThreadExchangeStreamCaptureMode");
    find(create_, "cuStreamCreate");
    find(current_, "cuCtxGetCurrent");
    find(synchronize_, "cuStreamSynchronize");
    find(copy_, "cuMemcpyAsync");
  }
  bool copy(void* to, const void* from, std::size_t bytes) {
    int relaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
    exchange_mode_(&relaxed);
    thread_local std::map<void*, void*> streams;  // of the contexts
    void* context = nullptr;
    current_(&context);
    void*& stream = streams[context];
    constexpr unsigned non_blocking = 1;
    const bool copied = (stream != nullptr || create_(&stream, non_blocking) == 0) &&
                        copy_(reinterpret_cast<std::uintptr_t>(to),
                              reinterpret_cast<std::uintptr_t>(from), bytes, stream) == 0 &&
                        synchronize_(stream) == 0;
    exchange_mode_(&relaxed);
    return copied;
  }

 private:
  int (*exchange_mode_)(int*);
  int (*create_)(void**, unsigned);
  int (*current_)(void**);
  int (*synchronize_)(void*);
  int (*copy_)(std::uintptr_t, std::uintptr_t, std::size_t, void*);
};

bool copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return true;
  if (faults.cuda != 0) {
    static Cuda cuda;
    return cuda.copy(to, from, bytes);
  }
  std::memcpy(to, from, bytes);
  return true;
}

Result start(Comm& comm, void* data, std::size_t bytes, void* memory, void** request) {
  *request = nullptr;
  if (memory == nullptr) return internal_error;
  if (comm.failure != success) return comm.failure;
  const int every = faults.null_every;
  if (every > 0 && ++comm.calls % every == 0) return success;
  if (comm.requests.size() >= static_cast<std::size_t>(most_requests)) return internal_error;
  if (comm.sends && faults.fail_after >= 0 && comm.started >= faults.fail_after)
    return comm.failure = system_error;
  auto* const place = static_cast<std::byte*>(data);
  const Memory& registered = *static_cast<const Memory*>(memory);
  if (place < registered.data || place + bytes > registered.data + registered.bytes)
    return invalid_argument;
  ++comm.started;
  comm.requests.push_back(
      std::make_unique<Request>(Request{.comm = &comm, .data = place, .room = bytes}));
  Request& made = *comm.requests.back();
  if (comm.sends) made.bytes = bytes;
  if (registered.is_device) {
    made.staged.resize(bytes);
    made.data = made.staged.data();
    made.target = place;
    if (comm.sends && !copy_bytes(made.data, place + faults.device_shift, bytes)) return cuda_error;
    if (comm.sends) ++faults.device_sends;
  }
  *request = &made;
  if (faults.stalls == 0) advance(comm);
  return success;
}

Result test(void* of, int* done, int* bytes) {
  auto& request = *static_cast<Request*>(of);
  Comm& comm = *request.comm;
  *done = 0;
  if (faults.stalls != 0) return success;
  if (!request.done) advance(comm);
  if (!request.done) return comm.failure;
  *done = 1;
  if (bytes != nullptr) *bytes = static_cast<int>(request.bytes);
  if (!comm.sends && request.target != nullptr) {
    request.staged.resize(request.bytes);
    comm.arrived[request.target] = std::move(request.staged);
  }
  std::erase_if(comm.requests, [&](const auto& each) { return each.get() == &request; });
  return success;
}

/// Refuses to flush what has not come.
Result flush(void* of, int n, void** data, int* bytes, void** memory, void** request) {
  auto& comm = *static_cast<Comm*>(of);
  if (n != 1 || !static_cast<const Memory*>(memory[0])->is_device) return internal_error;
  const auto found = comm.arrived.find(static_cast<std::byte*>(data[0]));
  if (found == comm.arrived.end() || found->second.size() != static_cast<std::size_t>(bytes[0]))
    return internal_error;
  if (!copy_bytes(found->first + faults.device_shift, found->second.data(), found->second.size()))
    return cuda_error;
  comm.arrived.erase(found);
  ++faults.flushes;
  comm.requests.push_front(
      std::make_unique<Request>(Request{.comm = &comm, .data = nullptr, .room = 0, .done = true}));
  *request = comm.requests.front().get();
  return success;
}

Result add_memory(void* data, std::size_t bytes, int type, void** memory) {
  const bool is_device = type != host_pointers;
  if (faults.fail_register != 0) return system_error;
  if (is_device && faults.fail_device_register >= 0 && faults.fail_device_register-- == 0) {
    faults.fail_device_register = 0;
    return system_error;
  }
  ++faults.registrations;
  *memory = new Memory{static_cast<std::byte*>(data), bytes, is_device};
  return success;
}
Result register_memory(void*, void* data, std::size_t bytes, int type, void** memory) {
  return (faults.pointers & type) == 0 ? system_error : add_memory(data, bytes, type, memory);
}
Result register_dma_buf(void*, void* data, std::size_t bytes, int type, std::uint64_t offset,
                        int descriptor, void** memory) {
  if ((faults.pointers & dmabuf_pointers) == 0 || type != device_pointers) return invalid_usage;
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  if (size < 0 || offset + bytes > static_cast<std::uint64_t>(size)) return invalid_argument;
  ++faults.dma_bufs;
  return add_memory(data, bytes, type, memory);
}
Result deregister_memory(void*, void* memory) {
  delete static_cast<Memory*>(memory);
  --faults.registrations;
  return success;
}
template <class Of>
Result destroy(void* comm) {
  delete static_cast<Of*>(comm);
  return success;
}

}  // namespace

Result start(Logger logger) {
  log = logger;
  if (faults.fail_init != 0) return system_error;
  logger(log_version, ~0UL, "test_plugin.cpp", 1, "%s has %d device", "PlaitTest", 1);
  return success;
}
void count_context(int change) { faults.contexts += change; }

void fill(Properties8& properties) {
  static char name[] = "loopback";
  properties.name = name;
  properties.pointer_support = faults.pointers;
  properties.speed = 80'000;
  properties.latency = 2.5F;
  properties.most_comms = 1000;
  properties.most_receives = 1;
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
  *number = 1;
  return success;
}

Result listen(int, void* to, void** comm) {
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

Result connect(int, void* of, void** comm) {
  *comm = nullptr;
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
  return start(*static_cast<Comm*>(comm), data, bytes, memory, request);
}
Result receive(void* comm, int n, void* data, std::size_t bytes, void* memory, void** request) {
  if (n != 1) return internal_error;
  return start(*static_cast<Comm*>(comm), data, bytes, memory, request);
}

/// PLAIT_TEST_PLUGIN="pointers=3,cuda=1" sets faults in programs that don't know them.
[[maybe_unused]] const bool from_environment = [] {
  const char* const given = std::getenv("PLAIT_TEST_PLUGIN");
  std::string_view rest = given != nullptr ? given : "";
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const std::size_t middle = one.find('=');
    *Fault::all().at(one.substr(0, middle)) = std::stoi(std::string(one.substr(middle + 1)));
  }
  return true;
}();

}  // namespace plait::test_plugin

/// Sets a fault, or reads it: returns the value before. `value` INT_MIN only reads.
extern "C" int plait_test_plugin(const char* name, int value) {
  auto& fault = *plait::test_plugin::Fault::all().at(name);
  return value == -2147483647 - 1 ? fault.load() : fault.exchange(value);
}
