// Collectives of matrices that end in a function of the program's own, in one kernel: sums go to it
// row by row, without a launch or a way through memory between. plait/row_functions.hpp has such
// functions. docs/rows.md has an example.
//
// A function is a trivially copyable object that the threads of a block call for a row together:
//
//     struct Scale {  // to = factor * sum
//       plait::bf16* to;
//       float factor;
//       template <class Row>
//       PLAIT_DEVICE void operator()(Row& row) const {
//         row.each([&](auto piece, auto& values) {
//           for (float& value : values) value *= factor;
//           row.store(row.of(to), piece, values);
//         });
//       }
//     };
//     plait::all_reduce_rows(comm, stream, from, rows, columns, Scale{to, 0.5f});
//
// If it has a member function `ahead(const Row&)`, that is called before the sum is there, and what
// it returns comes back as a second argument: see `Row::fetch`. If it has `refusal(columns)`, that
// returns why it can't take such rows as a std::string, which is empty if it can.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "plait/detail/row_rounds.hpp"
#include "plait/kernel.hpp"

namespace plait {

/// How rows travel. All ranks say the same.
enum class RowsBy {
  size,      // as suits their number and length
  packets,   // in packets, to all that need them: small matrices
  one_shot,  // the same with a signal for each part of a row
  two_shot   // each rank adds some rows and sends the sums; for an all-reduce only
};

namespace detail {
/// Messages name the kernels of the functions below by these.
template <class Function, class T, RowsBy>
struct all_reduce_rows;
template <class Function, class T, RowsBy>
struct reduce_scatter_rows;
template <class Function, class T, RowsBy>
struct all_gather_rows;

inline namespace PLAIT_TARGETS {

template <class Function, class T, RowCall Call, int Parts, RowWay Way>
struct RowsKernel {
  template <Device D>
  PLAIT_DEVICE void operator()(Here<D>& here, const RowsArgs<T>& args,
                               const Function& function) const {
    RowRounds<D, T, Call, Parts, Way, Function>(here, args, function).run();
  }
};

template <class Function, class T, RowCall Call, int Parts, RowWay Way>
struct ShownAs<RowsKernel<Function, T, Call, Parts, Way>> {
  static constexpr RowsBy by = Call == RowCall::two_shot ? RowsBy::two_shot
                               : Way == RowWay::packets  ? RowsBy::packets
                                                         : RowsBy::one_shot;
  using type = std::conditional_t<
      Call == RowCall::reduce_scatter, reduce_scatter_rows<Function, T, by>,
      std::conditional_t<Call == RowCall::all_gather, all_gather_rows<Function, T, by>,
                         all_reduce_rows<Function, T, by>>>;
};

/// Each of the functions below.
template <class T, class Function>
class RowsLaunch {
 public:
  static constexpr std::size_t width = 16 / sizeof(T);

  RowsLaunch(Communicator& comm, StreamRef stream, std::string_view caller, const T* from,
             std::size_t rows, std::size_t columns, RowsBy by, const Function& function)
      : comm_(comm),
        stream_(stream),
        caller_(caller),
        args_{from, static_cast<unsigned>(rows), static_cast<unsigned>(columns), 0},
        rows_(rows),
        columns_(columns),
        by_(by),
        function_(function) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>,
                  "matrices of rows have elements of float, plait::f16 or plait::bf16");
  }

  void all_reduce() const {
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const std::size_t saved = bytes() * (ranks - 1) * (ranks - 2) / ranks;  // by two-shot
    switch (by_ != RowsBy::size           ? by_
            : suits_packets()             ? RowsBy::packets
            : saved <= worth_a_second_hop ? RowsBy::one_shot
                                          : RowsBy::two_shot) {
      case RowsBy::packets:
        return send<RowCall::one_shot, true>(rows_);
      case RowsBy::two_shot:
        return send<RowCall::two_shot, false>((rows_ + ranks - 1) / ranks);
      default:
        return send<RowCall::one_shot, false>(rows_);
    }
  }
  template <RowCall Call>
  void of_each_rank() const {
    const bool fits =
        Call != RowCall::all_gather || parts_of(RowMemory::slot_packs) <= RowMemory::slots / 2;
    if (fits && (by_ == RowsBy::packets || (by_ == RowsBy::size && suits_packets())))
      send<Call, true>(rows_);
    else send<Call, false>(rows_);
  }

 private:
  static constexpr std::size_t most_rows = 0x7fffffff;
  static constexpr std::size_t wave = 64;
  /// Where the ways are equally fast on H200 (bf16, 2 GPUs; 8 ranks on one; 2026-11-29). The last
  /// one is estimated, from the speed of the links.
  static constexpr std::size_t packets_limit = std::size_t{128} << 10, packets_rows = 16,
                               worth_a_second_hop = std::size_t{3} << 19;

  /// What a rank sends to the others is little, or a few long rows.
  bool suits_packets() const {
    const auto peers = static_cast<std::size_t>(comm_.size() - 1);
    return bytes() * peers <= packets_limit || rows_ * peers <= packets_rows;
  }
  std::size_t bytes() const { return rows_ * columns_ * sizeof(T); }
  std::size_t packs() const { return columns_ / width; }
  /// Parts of a row, a power of two up to 4. A thread has one pack of each.
  std::size_t parts_of(std::size_t most_packs) const {
    return std::bit_ceil(std::clamp<std::size_t>((packs() + most_packs - 1) / most_packs, 1, 4));
  }

  std::string refusal(RowCall call) const {
    if (by_ == RowsBy::two_shot && call != RowCall::two_shot)
      return "RowsBy::two_shot, which is for all_reduce_rows only";
    if (args_.from == nullptr) return "the matrix is null";
    if (columns_ % width != 0)
      return "rows of " + std::to_string(columns_) + " columns, and they must be a multiple of " +
             std::to_string(width);
    if (columns_ * sizeof(T) > RowMemory::most_row_bytes)
      return "rows of " + std::to_string(columns_ * sizeof(T)) + " bytes, and they have up to " +
             std::to_string(RowMemory::most_row_bytes);
    if (rows_ > most_rows / static_cast<unsigned>(comm_.size()))
      return std::to_string(rows_) + " rows of each rank, and all ranks have up to 2^31 - 1";
    if (reinterpret_cast<std::uintptr_t>(args_.from) % 16 != 0)
      return "the matrix is not aligned to 16 bytes";
    if constexpr (requires { function_.refusal(columns_); }) {
      return function_.refusal(columns_);
    } else {
      return {};
    }
  }

  /// Few rows have many threads each. Many rows share a multiprocessor, if they are not too long.
  template <RowCall Call, bool Packets>
  void send(std::size_t rounds) const {
    constexpr std::size_t half = RowMemory::slot_packs / 2;
    if (rows_ == 0 || columns_ == 0) return;
    if constexpr (Packets) {
      send_by<Call, RowWay::packets>(parts_of(2 * half), rounds);
    } else if (packs() <= (rounds <= RowMemory::max_blocks / 2 ? 2 * half : 4 * half)) {
      send_by<Call, RowWay::signals_of_narrow_blocks>(parts_of(half), rounds);
    } else {
      send_by<Call, RowWay::signals>(parts_of(2 * half), rounds);
    }
  }
  template <RowCall Call, RowWay Way>
  void send_by(std::size_t parts, std::size_t rounds) const {
    if constexpr (Way != RowWay::signals) {  // which only long rows take
      if (parts == 1) return launch<Call, 1, Way>(rounds);
    }
    if (parts == 2) launch<Call, 2, Way>(rounds);
    else if constexpr (Call != RowCall::all_gather || Way != RowWay::packets) {
      launch<Call, 4, Way>(rounds);
    }
  }
  /// A wrong matrix is refused by the library, which must know of it.
  template <RowCall Call, int Parts, RowWay Way>
  void launch(std::size_t rounds) const {
    const std::string why = refusal(Call);
    RowsArgs<T> args = args_;
    args.part_packs =
        static_cast<unsigned>(((packs() + Parts - 1) / Parts + wave - 1) / wave * wave);
    detail::launch(
        comm_, stream_,
        {.shape = {static_cast<unsigned>(std::min<std::size_t>(rounds, RowMemory::max_blocks)),
                   args.part_packs},
         .rows = Way != RowWay::signals_of_narrow_blocks || Call == RowCall::two_shot ||
                         Call == RowCall::all_gather
                     ? KernelLaunch::Rows::in_half_of_the_blocks
                     : KernelLaunch::Rows::in_all_blocks,
         .rows_of_matrix = rows_,
         .columns_of_matrix = columns_,
         .caller = caller_,
         .refusal = why},
        RowsKernel<Function, T, Call, Parts, Way>{}, args, function_);
  }

  Communicator& comm_;
  StreamRef stream_;
  std::string_view caller_;
  RowsArgs<T> args_;
  std::size_t rows_, columns_;
  RowsBy by_;
  const Function& function_;
};

}  // namespace PLAIT_TARGETS
}  // namespace detail

// Files of two compilers may have the same functions.
inline namespace PLAIT_TARGETS {

/// The sums of all ranks' matrices of `rows` rows: every rank calls `function` for every row of the
/// sum. `from`: `rows` * `columns` elements of T (f32, f16 or bf16) in memory of this rank's
/// device, aligned to 16 bytes. The function may store over it what has the size of T, row for row
/// and each piece by the thread that has it.
///
/// The values of a row are those that `Communicator::all_reduce` would give under the policy
/// `reproducible`: added in f32 in rank order, and rounded to T. They, and what `Row::reduce`
/// returns, are equal in all bits on all ranks, however many rows there are and however they
/// travel.
///
/// Collective, asynchronous, and ordered on `stream`, with deadline, abort, graphs, groups and
/// errors as `launch` says; all ranks give the same `rows`, `columns`, `by` and type of function.
/// `Error(invalid_argument)` if `from` is null, if a row is not a multiple of 16 bytes or has more
/// than 32 KB, if the function refuses, and for `RowsBy::two_shot` in the other two functions.
/// `Error(unsupported)` if PLAIT_SCRATCH_BYTES leaves no memory for it, and `Error(mismatch)` if
/// ranks give different `rows` or `columns`. Nothing happens if one of these is 0.
template <class T, class Function>
void all_reduce_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
                     std::size_t columns, const Function& function, RowsBy by = RowsBy::size) {
  detail::RowsLaunch<T, Function>(comm, stream, "all_reduce_rows", from, rows, columns, by,
                                  function)
      .all_reduce();
}

/// The same, but `from` has `rows` rows for each rank, in rank order, and a rank calls `function`
/// for the sums of its own rows alone: numbers 0 to `rows` - 1.
template <class T, class Function>
void reduce_scatter_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
                         std::size_t columns, const Function& function, RowsBy by = RowsBy::size) {
  detail::RowsLaunch<T, Function>(comm, stream, "reduce_scatter_rows", from, rows, columns, by,
                                  function)
      .template of_each_rank<detail::RowCall::reduce_scatter>();
}

/// Every rank calls `function` for the rows of all ranks, `rows` of each, in rank order. Nothing is
/// added or rounded.
template <class T, class Function>
void all_gather_rows(Communicator& comm, StreamRef stream, const T* from, std::size_t rows,
                     std::size_t columns, const Function& function, RowsBy by = RowsBy::size) {
  detail::RowsLaunch<T, Function>(comm, stream, "all_gather_rows", from, rows, columns, by,
                                  function)
      .template of_each_rank<detail::RowCall::all_gather>();
}

}  // namespace PLAIT_TARGETS
}  // namespace plait
