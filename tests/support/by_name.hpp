// Every collective by its own public function. Made from the table, so what lacks one of these
// functions does not compile.
#pragma once
#include <array>
#include <stdexcept>
#include <string>

#include "plait/call.hpp"
#include "plait/collective_table.h"
#include "plait/types.hpp"

namespace plait::test {

/// Those with a function of `send` and `recv`: all but messages and the barrier.
#define PLAIT_NAMED(NAME, ...) Collective::NAME,
inline constexpr std::array collectives = {PLAIT_COLLECTIVES(PLAIT_NAMED, PLAIT_NO_OTHER)};
#undef PLAIT_NAMED

/// Of a Communicator, or a DeviceGroup: the function of pointers and a count.
template <class Caller, class Send, class Recv, class On>
void enqueue_by_name(Caller& caller, const Call& call, const Send& send, const Recv& recv,
                     const On& on, const CallOptions& options) {
  switch (call.collective) {
#define PLAIT_ENQUEUE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) \
  case Collective::NAME:                                      \
    return caller.NAME(send, recv, call.count, call.type,     \
                       PLAIT_IF_##OP(call.op, ) PLAIT_IF_##ROOT(call.root, ) on, options);
    PLAIT_COLLECTIVES(PLAIT_ENQUEUE, PLAIT_NO_OTHER)
#undef PLAIT_ENQUEUE
    default:
      throw std::logic_error(std::string(name_of(call.collective)) + " takes other arguments");
  }
}

/// The function of typed buffers, which finds type and count itself.
template <class Caller, class Send, class Recv, class On>
void enqueue_buffers_by_name(Caller& caller, const Call& call, const Send& send, const Recv& recv,
                             const On& on) {
  switch (call.collective) {
#define PLAIT_ENQUEUE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) \
  case Collective::NAME:                                      \
    return caller.NAME(send, recv, PLAIT_IF_##OP(call.op, ) PLAIT_IF_##ROOT(call.root, ) on);
    PLAIT_COLLECTIVES(PLAIT_ENQUEUE, PLAIT_NO_OTHER)
#undef PLAIT_ENQUEUE
    default:
      throw std::logic_error(std::string(name_of(call.collective)) + " takes other arguments");
  }
}

}  // namespace plait::test
