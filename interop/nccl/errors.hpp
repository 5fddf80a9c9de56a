// The work that every function of NCCL's interface shares: results, the last error's sentence, and
// numbers that become Plait's types.
#pragma once
#include <fmt/format.h>

#include <new>
#include <string>
#include <string_view>

#include "interop/nccl/abi.hpp"
#include "plait/error.hpp"
#include "plait/types.hpp"

namespace plait::nccl {

/// Records this thread's, and this process's, latest error.
Result fail(Result result, std::string_view sentence) noexcept;
Result fail(const Error& error) noexcept;
/// The sentence of this thread's latest error, or of the process's if this thread has none.
std::string last_sentence();
/// Keeps a text for the caller until this thread keeps another.
const char* kept(std::string text) noexcept;

Result result_of(ErrorCode code) noexcept;

/// Runs `body`, and turns an exception into a result.
template <class Body>
Result guarded(const char* call, Body&& body) noexcept {
  try {
    body();
    return Result::success;
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(Result::system_error, "there is no host memory");
  } catch (const std::exception& error) {
    try {
      return fail(Result::internal_error, fmt::format("{}: {}", call, error.what()));
    } catch (...) {
      return fail(Result::internal_error, error.what());
    }
  } catch (...) {
    return fail(Result::internal_error, call);
  }
}

/// An argument that this interface itself refuses: the call has not come to the communicator.
struct WrongArgument : Error {
  using Error::Error;
};
/// A call with a wrong argument: ncclInvalidArgument.
[[noreturn]] void refuse(const char* call, std::string_view why);
/// A call that NCCL may serve, and Plait does not, or not now: ncclInvalidUsage.
[[noreturn]] void refuse_use(const char* call, std::string_view why);

/// `*pointer`; refuses a null pointer.
template <class T>
T& needed(const char* call, T* pointer, const char* name) {
  if (pointer == nullptr) refuse(call, fmt::format("{} is NULL", name));
  return *pointer;
}

DataType data_type(const char* call, TypeNumber type);

/// Once per process, in the first call that makes something: reads NCCL_DEBUG, and says in the log
/// which library this is and which of NCCL's variables do nothing.
void greet();
/// Reads NCCL_DEBUG again.
void read_debug_level();

}  // namespace plait::nccl
