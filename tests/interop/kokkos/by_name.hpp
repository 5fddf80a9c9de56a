// Shared by the tests of all collectives: each by its own functions, on two views or in one.
#pragma once
#include <plait/collective_table.h>

#include <plait/kokkos.hpp>

#include "world.hpp"

namespace plait::test {

/// The functions of a collective, which must be there with and without an execution space.
template <Collective>
struct Functions;
#define PLAIT_FUNCTIONS(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                       \
  template <>                                                                         \
  struct Functions<Collective::NAME> {                                                \
    template <class... Views>                                                         \
    static void call(bool with_space, int root, const Views&... views) {              \
      const CallOptions options{};                                                    \
      if (with_space)                                                                 \
        kokkos::NAME(Exec(), comm(), views...,                                        \
                     PLAIT_IF_##OP(ReduceOp::sum, ) PLAIT_IF_##ROOT(root, ) options); \
      else                                                                            \
        kokkos::NAME(comm(), views...,                                                \
                     PLAIT_IF_##OP(ReduceOp::sum, ) PLAIT_IF_##ROOT(root, ) options); \
      static_cast<void>(root);                                                        \
    }                                                                                 \
  };
PLAIT_COLLECTIVES(PLAIT_FUNCTIONS, PLAIT_NO_OTHER)
#undef PLAIT_FUNCTIONS

/// That form must be there unless the root alone has all blocks.
template <Collective collective>
constexpr bool has_form_in_place() {
  constexpr kokkos::detail::Blocks blocks = kokkos::detail::blocks_of(collective);
  return !(blocks.many_sent && blocks.root_sends) &&
         !(blocks.many_received && blocks.root_receives);
}

/// `body.operator()<collective>()` for each of the table, which take `src` and `dst`.
template <class Body>
void for_each_collective(const Body& body) {
#define PLAIT_CALL(NAME, ...) body.template operator()<Collective::NAME>();
  PLAIT_COLLECTIVES(PLAIT_CALL, PLAIT_NO_OTHER)
#undef PLAIT_CALL
}

}  // namespace plait::test
