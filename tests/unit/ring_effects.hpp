// A table of the effects of the ring's primitives, for the schedule's model and for the primitives.
#pragma once
#include <cstddef>

namespace plait {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// `copy` is for a ring of one.
enum class Primitive { send, recv_reduce_send, recv_reduce_copy_send, recv_copy_send, recv, copy };

/// Takes a chunk from the previous rank, adds this rank's input (or begins with it), stores the
/// chunk into this rank's output, sends it to the next rank.
struct Effect {
  bool receives, adds, stores, sends;
};
inline Effect effect_of(Primitive primitive) {
  switch (primitive) {
    case Primitive::send:
      return {.receives = false, .adds = true, .stores = false, .sends = true};
    case Primitive::recv_reduce_send:
      return {.receives = true, .adds = true, .stores = false, .sends = true};
    case Primitive::recv_reduce_copy_send:
      return {.receives = true, .adds = true, .stores = true, .sends = true};
    case Primitive::recv_copy_send:
      return {.receives = true, .adds = false, .stores = true, .sends = true};
    case Primitive::recv:
      return {.receives = true, .adds = false, .stores = true, .sends = false};
    default:
      return {.receives = false, .adds = true, .stores = true, .sends = false};
  }
}

}  // namespace plait
