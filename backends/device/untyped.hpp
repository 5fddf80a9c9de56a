// Elements of a type that is known at run time only. The host's kernels that leave all sums to
// whole runs of packs (SumRun) are compiled for these alone, and not once per type: a CPU's loops
// over a run need no more code of the kernel than a call.
//
// Such a kernel counts bytes: its arguments have `count_bytes(size)`, which turns a number of
// elements of `size` bytes into one of bytes. Wherever it would use `Reducer<T>`, it calls
// `sum_run` if `T` is `Untyped`. A kernel for GPUs has neither.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/pack.hpp"

namespace plait {

struct Untyped {
  std::byte byte;
};
template <class T>
inline constexpr bool is_untyped = std::is_same_v<std::remove_const_t<T>, Untyped>;

/// The sum of terms of `bytes` bytes, a multiple of an element's. Term i begins at term(i). The
/// first `entering` terms are those of ranks, in their order, and the others partial results.
/// Stored at result(i), where that is not null, for each i below `results`; result(0) is not null.
/// A result may lie where a term does. `finished`: the sum has all terms, so an average is divided.
struct SumRun {
  const void* context;
  const std::byte* (*term)(const void* context, int i);
  std::byte* (*result)(const void* context, int i);
  int entering, terms, results;
  std::size_t bytes;
  bool finished;
};
void sum_run(const Reduction& reduction, const SumRun& run);

/// Copies this thread's packs of the first `packs` of `bytes` bytes: one run if the block has one
/// thread, as in `Reducer<Untyped>::sum`.
template <class D>
void copy_run(D& dev, const void* from, void* to, std::size_t packs, std::size_t bytes) {
  const std::size_t step = dev.threads() == 1 ? packs : 1;
  for (std::size_t i = dev.thread() * step; i < packs; i += dev.threads() * step) {
    const std::size_t begin = i * D::pack_bytes, end = begin + step * D::pack_bytes;
    __builtin_memcpy(static_cast<std::byte*>(to) + begin,
                     static_cast<const std::byte*>(from) + begin,
                     (end < bytes ? end : bytes) - begin);
  }
}

template <>
class Reducer<Untyped> {
 public:
  explicit Reducer(const Reduction& reduction) : reduction_(reduction) {}
  static constexpr bool has_trees = false;  // `sum_run` sees the reduction

  /// Adds up this thread's packs of the packs `range` of buffers of `bytes` bytes, which begin at
  /// term(i) and result(i); the rest is as in SumRun. If the block has one thread, that is one run,
  /// else one per pack, so that each thread has the packs that it has in all other loops.
  template <class D, class Term, class Result>
  void sum(D& dev, Range range, std::size_t bytes, int entering, int terms, Term term, int results,
           Result result, bool finished) const {
    const std::size_t step = dev.threads() == 1 ? range.size() : 1;
    for (std::size_t i = range.begin + dev.thread() * step; i < range.end;
         i += dev.threads() * step) {
      const std::size_t begin = i * D::pack_bytes, end = begin + step * D::pack_bytes;
      const Places<Term, Result> places{term, result, begin};
      sum_run(reduction_, {.context = &places,
                           .term = Places<Term, Result>::term_at,
                           .result = Places<Term, Result>::result_at,
                           .entering = entering,
                           .terms = terms,
                           .results = results,
                           .bytes = (end < bytes ? end : bytes) - begin,
                           .finished = finished});
    }
  }

 private:
  /// Those of a run that begins at byte `begin` of the buffers.
  template <class Term, class Result>
  struct Places {
    const Term& term;
    const Result& result;
    std::size_t begin;

    static const std::byte* term_at(const void* places, int i) {
      const auto& all = *static_cast<const Places*>(places);
      const void* const term = all.term(i);
      return static_cast<const std::byte*>(term) + all.begin;
    }
    static std::byte* result_at(const void* places, int i) {
      const auto& all = *static_cast<const Places*>(places);
      void* const result = all.result(i);
      return result == nullptr ? nullptr : static_cast<std::byte*>(result) + all.begin;
    }
  };

  const Reduction& reduction_;
};

}  // namespace plait
