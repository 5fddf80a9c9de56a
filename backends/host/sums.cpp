// The host's sums of runs, for each type. Compiled like a kernel (CMakeLists.txt).
#include <alloca.h>

#include <array>
#include <cstring>

#include "backends/device/kernel_table.hpp"
#include "backends/device/pair.hpp"
#include "backends/device/untyped.hpp"

namespace plait {
namespace {

constexpr std::size_t pack_bytes = 16;  // a vector: g++ 12 would keep larger packs in memory

/// False if no element is a NaN. Always true for types for which a check would take long. The inner
/// loop has no branch, so the compiler makes vectors of it.
template <class T>
bool may_have_nan(const T* elements, std::size_t count) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else if constexpr (std::is_floating_point_v<T>) {
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr std::size_t block = 1024;
    for (std::size_t begin = 0; begin < count; begin += block) {
      const std::size_t end = count - begin < block ? count : begin + block;
      Word nans = 0;
      for (std::size_t i = begin; i < end; ++i)
        nans |= static_cast<Word>(elements[i] != elements[i] ? 1 : 0);
      if (nans != 0) return true;
    }
    return false;
  } else {
    return true;
  }
}

/// The sum of packs, of which pack(i) is that of term i. `Plain`: the operation is a sum, so
/// partial results are added as terms of ranks are. `Terms`: their number, or 0 for any.
template <bool Plain, int Terms, class T, class PackOf>
PLAIT_ELEMENT auto total(const Reducer<T>& reducer, const SumRun& run, PackOf pack) {
  const int terms = Terms == 0 ? run.terms : Terms;
  const auto enters = [&](int i) { return Plain || i < run.entering; };
  auto sum = enters(0) ? reducer.start(pack(0)) : reducer.widened(pack(0));
  for (int i = 1; i < terms; ++i) {
    if (enters(i)) reducer.add(sum, pack(i));
    else reducer.add_partial(sum, pack(i));
  }
  if (!Plain && run.finished) reducer.average(sum);
  return reducer.template rounded<pack_bytes>(sum);
}

/// Where the first two results begin. The second may be null.
struct Two {
  std::byte *first, *second;
};

// clang's analyzer follows a loop some four times, so for it terms beyond have no address; nor does
// it know that result(0) is not null.
// NOLINTBEGIN(clang-analyzer-core.*)

/// Adds the bytes [begin, end) of all terms up.
template <class T, bool Plain, int Terms, bool Second>
void add_bytes(const Reduction& reduction, const SumRun& run, const std::byte* const* terms,
               std::size_t begin, std::size_t end, const Two& to) {
  using P = Pack<T, pack_bytes>;
  // The compiler sees the operation of a plain sum, and keeps it in registers.
  const Reducer<T> reducer(Plain ? Reduction{.elements = reduction.elements} : reduction);
  const auto add_pack = [&](std::size_t at) {  // at any address
    const P sum = total<Plain, Terms>(reducer, run, [&](int i) {
      P pack;
      std::memcpy(&pack, terms[i] + at, pack_bytes);
      return pack;
    });
    std::memcpy(to.first + at, &sum, pack_bytes);
    if constexpr (Second) {
      std::memcpy(to.second + at, &sum, pack_bytes);
    }
  };
  constexpr int unrolled = Plain ? 4 : 1;
  for (; end - begin >= unrolled * pack_bytes; begin += unrolled * pack_bytes)
    for (unsigned k = 0; k < unrolled; ++k) add_pack(begin + k * pack_bytes);
  for (; end - begin >= pack_bytes; begin += pack_bytes) add_pack(begin);
  if (begin == end) return;
  const P sum = total<Plain, 0>(reducer, run, [&](int i) {
    P pack{};
    std::memcpy(&pack, terms[i] + begin, end - begin);
    return pack;
  });
  std::memcpy(to.first + begin, &sum, end - begin);
  if constexpr (Second) {
    std::memcpy(to.second + begin, &sum, end - begin);
  }
}

/// Calls add(begin, end, to) for all bytes. `add` stores the first `at_once` results, one or two.
/// If there are more, it works piece by piece, and each piece is copied to the others while it is
/// in the nearest cache.
template <class Add>
void store_results(const SumRun& run, int at_once, Add add) {
  constexpr std::size_t piece = 2048;
  const auto result = [&run](int i) {
    return i < run.results ? run.result(run.context, i) : nullptr;
  };
  const std::size_t step = run.results > at_once ? piece : run.bytes;
  const Two to{result(0), at_once == 2 ? result(1) : nullptr};
  for (std::size_t begin = 0; begin < run.bytes; begin += step) {
    const std::size_t end = run.bytes - begin < step ? run.bytes : begin + step;
    add(begin, end, to);
    for (int i = at_once; i < run.results; ++i)
      if (std::byte* const more = result(i); more != nullptr)
        std::memcpy(more + begin, to.first + begin, end - begin);
  }
}

template <class T, int Terms>
void add_plain(const Reduction& reduction, const SumRun& run, const std::byte* const* terms) {
  store_results(run, 2, [&](std::size_t begin, std::size_t end, const Two& to) {
    if (to.second == nullptr)
      add_bytes<T, true, Terms, false>(reduction, run, terms, begin, end, to);
    else add_bytes<T, true, Terms, true>(reduction, run, terms, begin, end, to);
  });
}

/// Adds all bytes up in a tree. `Terms`: their number, and the operation is a sum; else the most.
template <class T, int Terms>
void add_tree(const Reduction& reduction, const SumRun& run, const std::byte* const* terms) {
  using P = Pack<T, pack_bytes>;
  constexpr bool any = Terms == most_in_tree_on_host;
  const int number = any ? run.terms : Terms;
  const Reducer<T> reducer(any ? reduction : Reduction{});
  store_results(run, 1, [&](std::size_t begin, std::size_t end, const Two& to) {
    for (; begin < end; begin += pack_bytes) {
      const std::size_t bytes = end - begin < pack_bytes ? end - begin : pack_bytes;
      P packs[Terms];
      for (int i = 0; i < number; ++i) {
        packs[i] = {};
        if (bytes == pack_bytes) std::memcpy(&packs[i], terms[i] + begin, pack_bytes);
        else std::memcpy(&packs[i], terms[i] + begin, bytes);
      }
      add_in_tree(reducer, packs, number);
      std::memcpy(to.first + begin, &packs[0], bytes);
    }
  });
}

template <class T>
void sum_of(const Reduction& reduction, const SumRun& run) {
  auto** const terms = static_cast<const std::byte**>(
      alloca(sizeof(const std::byte*) * static_cast<unsigned>(run.terms)));
  for (int i = 0; i < run.terms; ++i) terms[i] = run.term(run.context, i);
  const bool adds = reduction.op == ReduceOp::sum;
  if constexpr (Reducer<T>::has_trees) {
    if (reduction.tree && run.finished && run.entering == run.terms && !(adds && run.terms <= 2)) {
      // Of the other types, this would be much code.
      if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, bf16>) {
        if (adds && run.terms == 4) return add_tree<T, 4>(reduction, run, terms);
        if (adds && run.terms == 8) return add_tree<T, 8>(reduction, run, terms);
      }
      return add_tree<T, most_in_tree_on_host>(reduction, run, terms);
    }
  }
  if (run.terms == 1 && run.entering == 0 && !run.finished) {  // a partial result, bit by bit
    store_results(run, 1, [&](std::size_t begin, std::size_t end, const Two& to) {
      if (to.first != terms[0]) std::memcpy(to.first + begin, terms[0] + begin, end - begin);
    });
  } else if (adds) {
    // A single term that lies where its sum shall is the sum, but for NaNs: those have one bit
    // pattern in results. To look for one takes half as long as to store all elements again.
    if (run.terms == 1 && run.results == 1 && terms[0] == run.result(run.context, 0) &&
        !may_have_nan(reinterpret_cast<const T*>(terms[0]), run.bytes / sizeof(T)))
      return;
    if (run.terms == 2) add_plain<T, 2>(reduction, run, terms);
    else add_plain<T, 0>(reduction, run, terms);
  } else {
    store_results(run, 1, [&](std::size_t begin, std::size_t end, const Two& to) {
      add_bytes<T, false, 0, false>(reduction, run, terms, begin, end, to);
    });
  }
}

// NOLINTEND(clang-analyzer-core.*)

using SumCode = void (*)(const Reduction&, const SumRun&);
using Table = std::array<SumCode, data_type_count>;

template <class... Entry>
constexpr Table table_of(TypeList<Entry...>) {
  Table table{};
  const auto add = [&]<class E>(E*) {
    for (const DataType type : Listed<E>::data_types)
      table[static_cast<std::size_t>(type)] = sum_of<typename Listed<E>::Element>;
  };
  (add(static_cast<Entry*>(nullptr)), ...);
  return table;
}

}  // namespace

void sum_run(const Reduction& reduction, const SumRun& run) {
  static constexpr Table table = table_of(AllReducedTypes());
  table[static_cast<std::size_t>(reduction.type)](reduction, run);
}

}  // namespace plait
