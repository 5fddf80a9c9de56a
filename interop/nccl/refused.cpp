// The functions of NCCL that Plait does not have. A program that can do without them sees a result
// that says so.
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"

namespace plait::nccl {
namespace {

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
