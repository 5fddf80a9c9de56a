// The work that every function of the C interface shares: it checks arguments, reads structures of
// other versions, and turns errors into status codes.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "core/handle_table.hpp"
#include "plait/communicator.hpp"
#include "plait/plait.h"

namespace plait::c {

/// A communicator and the buffers allocated from it.
struct Owner {
  Communicator comm;
  std::vector<HandleId> buffers{};
  Origin origin{};
};
using Communicators = HandleTable<Owner, HandleKind::communicator>;

struct Allocation {
  HandleId owner;
  std::shared_ptr<Window> window;
  void* pointer;
  std::size_t bytes;
};
using BufferHandles = HandleTable<Allocation, HandleKind::buffer>;

template <class Handle>
HandleId id_of(Handle handle) {
  return {reinterpret_cast<std::uintptr_t>(handle)};
}
template <class Handle>
Handle handle_of(HandleId id) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in disguise
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(id.value));
}

/// Records this thread's latest error.
plait_status fail(plait_status status, std::string_view sentence) noexcept;
plait_status fail(const Error& error) noexcept;

/// Runs `body`, and turns an exception into a status.
template <class Body>
plait_status guarded(const char* call, Body&& body) noexcept {
  try {
    body();
    return PLAIT_SUCCESS;
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::exception& error) {
    try {
      return fail(PLAIT_ERROR_INTERNAL, fmt::format("{}: {}", call, error.what()));
    } catch (...) {
      return fail(PLAIT_ERROR_INTERNAL, error.what());
    }
  } catch (...) {
    return fail(PLAIT_ERROR_INTERNAL, call);
  }
}

/// The beginning of an error's sentence.
struct Where {
  // NOLINTNEXTLINE(google-explicit-constructor)
  Where(const char* function, int at_rank = -1) : call(function), rank(at_rank) {}
  const char* call;
  int rank;  // -1: unknown
};

/// An argument that this interface itself refuses: the call has not come to the communicator.
struct WrongArgument : Error {
  using Error::Error;
};
[[noreturn]] void refuse(Where where, const std::string& why);

/// `*pointer`; refuses a null pointer.
template <class T>
T& needed(Where where, T* pointer, const char* name) {
  if (pointer == nullptr) refuse(where, fmt::format("{} is NULL", name));
  return *pointer;
}

/// Throws unless this version can read a structure of this size.
void check_size(Where where, const char* structure, std::size_t size, std::size_t known);

/// True if the structure, in the caller's version, has this member.
template <class S, class T>
bool has(const S& given, T S::*member) {
  const auto end = reinterpret_cast<const std::byte*>(&(given.*member) + 1) -
                   reinterpret_cast<const std::byte*>(&given);
  return static_cast<std::size_t>(end) <= given.size;
}
template <class S, class T>
T get(const S& given, T S::*member, T missing) {
  return has(given, member) ? given.*member : missing;
}
template <class S, class T>
void put(S& given, T S::*member, T value) {
  if (has(given, member)) given.*member = value;
}

// Conversions from the C interface to the C++ interface.
DataType data_type(Where where, plait_data_type type);
CommunicatorOptions communicator_options(Where where, const plait_config* config);
CallOptions call_options(Where where, const plait_call_options* options);
Call described_call(Where where, const plait_call* description);
ReduceOp reduce_op(Where where, plait_reduce_op op);
HostOperation host_operation(Where where, const plait_host_operation* op);
StreamRef stream_ref(plait_stream_t stream);

void check_place(Where where, const char* text, std::size_t capacity);
void write_text(const std::string& from, char* text, std::size_t capacity, std::size_t* length);

/// Makes a communicator and its handle. Also for libplait-mpi.
plait_status create(const char* call, const plait_config* config, plait_comm* comm,
                    const std::function<Communicator(const CommunicatorOptions&)>& make) noexcept;

}  // namespace plait::c
