// NCCL's functions that say what a communicator and the library are, and what became of them; and
// those that Plait does not have. A program that can do without these sees a result that says so.
#include <cstring>
#include <iterator>

#include "interop/nccl/comm.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"

namespace plait::nccl {
namespace {

template <class Ask>
Result tell(const char* call, CommHandle comm, int* result, const char* name, Ask&& ask) noexcept {
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    needed(call, result, name) = ask((*own)->look(call));
  });
}

/// Converts to what any of the functions returns.
struct Nothing {
  Result result;
  operator Result() const { return result; }  // NOLINT(google-explicit-constructor)
  operator Team() const { return {}; }        // NOLINT(google-explicit-constructor): no ranks
  operator int() const { return 0; }          // NOLINT(google-explicit-constructor)
};

Nothing refuse_all_of(const char* name) noexcept {
  return {guarded(
      name, [&] { refuse_use(name, "Plait does not have this function of NCCL (docs/nccl.md)"); })};
}

}  // namespace

#define PLAIT_REFUSE(RESULT, NAME) \
  RESULT NAME() { return static_cast<RESULT>(refuse_all_of(#NAME)); }
PLAIT_NCCL_REFUSED_FUNCTIONS(PLAIT_REFUSE)
#undef PLAIT_REFUSE

}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclCommGetAsyncError(CommHandle comm, Result* error) {
  constexpr const char* call = "ncclCommGetAsyncError";
  return guarded(call, [&] {
    const auto own = pin_to_the_last(call, comm);
    needed(call, error, "asyncError") = (*own)->state();
  });
}

Result plait::nccl::ncclCommCount(const CommHandle comm, int* count) {
  return tell("ncclCommCount", comm, count, "count", [](Communicator& of) { return of.size(); });
}
Result plait::nccl::ncclCommUserRank(const CommHandle comm, int* rank) {
  return tell("ncclCommUserRank", comm, rank, "rank", [](Communicator& of) { return of.rank(); });
}
Result plait::nccl::ncclCommCuDevice(const CommHandle comm, int* device) {
  return tell("ncclCommCuDevice", comm, device, "device",
              [](Communicator& of) { return backend_of(of).info().ordinal; });
}

Result plait::nccl::ncclCommQueryProperties(CommHandle comm, Properties* properties) {
  constexpr const char* call = "ncclCommQueryProperties";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    Properties& result = needed(call, properties, "props");
    if (result.magic != magic_of_config || result.size < sizeof(Properties))
      refuse(call, "the ncclCommProperties_t was not initialised");
    const Communicator& of = (*own)->look(call);
    const int device = backend_of(of).info().ordinal;
    // All that follows says what the device interface can do: nothing.
    std::memset(static_cast<void*>(&result + 1), 0, result.size - sizeof(Properties));
    result.rank = of.rank();
    result.ranks = of.size();
    result.cuda_device = result.nvml_device = device;
  });
}

Result plait::nccl::ncclGetVersion(int* code) {
  constexpr const char* call = "ncclGetVersion";
  return guarded(call, [&] { needed(call, code, "version") = version; });
}

const char* plait::nccl::ncclGetErrorString(Result result) {
  static constexpr const char* texts[] = {
      // in the order of Result
      "no error",
      "the device's runtime refused a call (ncclGetLastError says which)",
      "memory ran out, or the system refused a call (ncclGetLastError says which)",
      "an error within Plait (ncclGetLastError has more)",
      "an argument is wrong (ncclGetLastError says which)",
      "Plait can't serve this call, or ranks disagree (ncclGetLastError has more)",
      "another rank is lost, has aborted or did not come (ncclGetLastError has more)",
      "the call has not ended yet",
      "a deadline has passed"};
  static_assert(std::size(texts) == result_count);
  const auto number = static_cast<std::size_t>(static_cast<int>(result));
  return number < std::size(texts) ? texts[number] : "this number is no result of NCCL";
}

const char* plait::nccl::ncclGetLastError(CommHandle comm) {
  try {
    if (comm != nullptr)
      if (std::string own = (*pin_to_the_last("ncclGetLastError", comm))->sentence(); !own.empty())
        return kept(std::move(own));
  } catch (const std::exception&) {  // a handle of no communicator: its error is the thread's
  }
  try {
    return kept(last_sentence());
  } catch (const std::exception&) {
    return "there is no host memory";
  }
}

void plait::nccl::ncclResetDebugInit() {
  static_cast<void>(guarded("ncclResetDebugInit", [] { read_debug_level(); }));
}
void plait::nccl::ncclResetDebugInitInternal() { ncclResetDebugInit(); }
