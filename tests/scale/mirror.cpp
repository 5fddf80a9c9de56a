// A network plug-in that stands for all ranks but one. What that rank sends to a peer comes back as
// if the peer had sent it: the greeting with the peer's number, all else as it is. So for a rank
// that does with each peer what the peer does with it, as in recursive doubling, all peers have the
// same data as it.
#include "mirror.hpp"

#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "transport/plugin/net_interface.hpp"

namespace plait::mirror {
namespace {

using namespace transport::net_interface;
using Message = std::vector<std::byte>;

/// The messages to a peer, which are those from it.
struct Flow {
  std::int32_t rank;
  std::deque<Message> messages{};
  std::size_t sent = 0;
};
struct Comm {
  std::shared_ptr<Flow> flow;
};
struct Request {
  Comm* comm;  // of a receive, else null
  std::byte* data;
  std::size_t bytes;  // of a send; the room of a receive
};

std::deque<std::shared_ptr<Flow>> calls;  // not accepted yet
int connections = 0;

Result init(Logger) { return success; }
Result devices(int* number) {
  *number = 1;
  return success;
}
Result properties(int, void* into) {
  static char name[] = "mirror";
  auto& properties = *static_cast<Properties8*>(into);
  properties.name = name;
  properties.pointer_support = host_pointers;
  properties.most_receives = 1;
  return success;
}
Result listen(int, void* handle, void** comm) {
  const Handle own{magic, -1};
  std::memcpy(handle, &own, sizeof own);
  static int listener;
  *comm = &listener;
  return success;
}
Result connect(int, void* of, void** comm, void**) {
  Handle handle{};
  std::memcpy(&handle, of, sizeof handle);
  if (handle.magic != magic || handle.rank < 0) return internal_error;
  auto flow = std::make_shared<Flow>(Flow{.rank = handle.rank});
  calls.push_back(flow);
  ++connections;
  *comm = new Comm{std::move(flow)};
  return success;
}
Result accept(void*, void** comm, void**) {
  *comm = nullptr;
  if (calls.empty()) return success;
  *comm = new Comm{calls.front()};
  calls.pop_front();
  return success;
}
Result close(void* comm) {
  delete static_cast<Comm*>(comm);
  return success;
}
Result close_listener(void*) { return success; }
Result register_memory(void*, void* data, std::size_t, int, void** memory) {
  *memory = data;
  return success;
}
Result deregister(void*, void*) { return success; }

Result send(void* of, void* data, int bytes, int, void*, void** request) {
  Flow& flow = *static_cast<Comm*>(of)->flow;
  const auto* const begin = static_cast<const std::byte*>(data);
  Message message(begin, begin + bytes);
  if (flow.sent++ == 0) std::memcpy(message.data(), &flow.rank, sizeof flow.rank);
  flow.messages.push_back(std::move(message));
  *request = new Request{nullptr, nullptr, static_cast<std::size_t>(bytes)};
  return success;
}
Result receive(void* of, int, void** data, int* bytes, int*, void**, void** request) {
  *request = new Request{static_cast<Comm*>(of), static_cast<std::byte*>(*data),
                         static_cast<std::size_t>(*bytes)};
  return success;
}
Result test(void* of, int* done, int* bytes) {
  auto* const request = static_cast<Request*>(of);
  *done = 0;
  if (request->comm != nullptr) {
    auto& messages = request->comm->flow->messages;
    if (messages.empty()) return success;
    const Message message = std::move(messages.front());
    messages.pop_front();
    if (message.size() > request->bytes) return invalid_usage;
    std::memcpy(request->data, message.data(), message.size());
    request->bytes = message.size();
  }
  *done = 1;
  if (bytes != nullptr) *bytes = static_cast<int>(request->bytes);
  delete request;
  return success;
}

Table<8> table() {
  Table<8> made{};
  made.name = "Mirror";
  made.init = init;
  made.probe = {devices, properties};
  made.listen = listen, made.connect = connect, made.accept = accept;
  made.memory = {register_memory, nullptr, deregister};
  made.isend = send, made.irecv = receive;
  made.requests = {nullptr, test, close, close, close_listener, nullptr, nullptr};
  return made;
}

}  // namespace
}  // namespace plait::mirror

extern "C" {
extern const plait::transport::net_interface::Table<8> ncclNetPlugin_v8;
const plait::transport::net_interface::Table<8> ncclNetPlugin_v8 = plait::mirror::table();
/// The connections made so far.
int plait_mirror_connections() { return plait::mirror::connections; }
}
