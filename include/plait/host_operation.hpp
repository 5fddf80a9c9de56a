// A reduction operation that is a function of the program, for the host target.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <type_traits>

#include "plait/language.hpp"

namespace plait {

/// An associative operation on elements of `element_bytes` bytes, given at run time, for
/// `Communicator::all_reduce`, `reduce`, `reduce_scatter`, `scan` and `exscan` on the host target.
/// GPUs can't call a function of the program: there a call throws `Error(unsupported)`, and the
/// operation must be compiled into a kernel (docs/adding-an-algorithm.md, "Your own elements and
/// operations").
///
/// It need not commute, because terms are combined in the order of their ranks: all ranks receive
/// the bits of t0 op (t1 op (t2 op ...)), whatever the count. In a scan those are the first terms.
///
/// The function is called when the stream comes to the call: by the stream's thread, or by a thread
/// that waits for the stream, in IEEE's default floating-point environment. Different streams and
/// communicators call it at the same time. Later work on the stream waits for it. It must not call
/// Plait, and must not throw: that ends the program. It is not called for a communicator that is
/// broken.
///
/// A call copies this description. The function, and what `context` points to, must live until the
/// stream has passed the call, and for a captured call as long as its graph may run.
struct HostOperation {
  /// inout[i] = in[i] op inout[i], for `count` elements; in[i] belongs to a lower rank than
  /// inout[i], as for MPI_Op_create. The two arrays don't overlap, and have the alignment of the
  /// elements. Called for any part of a message.
  using Function = void (*)(const void* in, void* inout, std::size_t count, void* context);

  Function function = nullptr;
  std::size_t element_bytes = 0;  ///< a multiple of `alignment`
  /// Of elements: a power of two, at most 64. The caller's buffers must have it. Elements with an
  /// alignment of 8 or more travel fastest.
  std::size_t alignment = 1;
  void* context = nullptr;  ///< passed to each call of the function

  /// The operation `op(lower, higher)` on elements of type T, from a function object without
  /// state, such as a lambda without captures:
  ///
  ///     const auto times = HostOperation::of<Matrix>(
  ///         [](const Matrix& a, const Matrix& b) { return a * b; });
  template <class T, class Op>
  static constexpr HostOperation of(Op) {
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
    static_assert(std::is_empty_v<Op> && std::is_default_constructible_v<Op>,
                  "a function object without state: pass state by `context`");
    return {.function =
                [](const void* in, void* inout, std::size_t count, void*) {
                  const auto* const lower = static_cast<const T*>(in);
                  auto* const higher = static_cast<T*>(inout);
                  for (std::size_t i = 0; i < count; ++i) higher[i] = Op()(lower[i], higher[i]);
                },
            .element_bytes = sizeof(T),
            .alignment = alignof(T)};
  }
};

}  // namespace plait
