// The kernel of collectives that end in a function of the program's own.
//
// A block takes rows in rounds: one row, or one of each rank. In a round,
//   1. terms: the block sends each row to the rank that adds it (one-shot: to all ranks), step by
//      step, and some steps ahead of the one that it waits for;
//   2. it adds what all ranks sent of its row, in rank order, and rounds the sum to T;
//   3. gathering (two-shot): it sends the sum to all ranks and takes theirs. An all-gather is this
//      alone, with the ranks' own rows;
//   4. the function gets each row.
// A step is a part of a row, or two parts where a signal follows.
//
// Why no barrier is missing. Data are there with their flag, or behind a signal that came after
// them. So only this matters: that nobody writes a slot which its reader still needs. A rank's
// steps are numbered through all launches, those by packets and those by signals apart, because
// each kind has slots of its own. "Rank" is short for the same block of the rank; where
// packs are packets, for the same thread, since the pack of a place is written and read by the
// threads of one number, and every thread takes part in every step of a launch. What a thread of
// another number did in an earlier launch is over: a launch has ended before the next begins, so a
// rank that has seen a step of a launch knows that its sender has ended all earlier launches.
//
// Terms: a rank that is done with step k - 1 sends step k + a, where a is `steps_ahead`. It has
// seen step k - 1 of every rank, which that rank sent when it was done with step k - 2 - a. That is
// the step which k + a overwrites, because there are 2a + 2 slots.
//
// Gathering: a rank sends its sums of round e when it has seen terms of round e of every rank,
// which that rank sent in round e - 1 or later, so when it was done with round e - 2, whose half
// these sums overwrite. (Steps ahead may go further than one round only by packets, which never
// travel twice.) Without terms, it sends round e when it is done with round e - 1, so it has seen
// what each rank sent in round e - 1, when that was done with round e - 2.
//
// Gathering by packets uses the slots of terms: a round takes one or two steps, which overwrite
// what lies four steps back. It is sent when the round before is done, so every rank is done with
// the round before that, and needs at most the two steps of the round before; or, if that was in a
// launch of terms, the last two, because it was done with step k - 2 - a when it sent step k - 1.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "plait/detail/row_mail.hpp"

namespace plait::detail {

enum class RowCall { one_shot, two_shot, reduce_scatter, all_gather };
/// A slot has a part of a row, or with signals two parts of half the length, of narrower blocks:
/// more of these run at once.
enum class RowWay { packets, signals, signals_of_narrow_blocks };

template <class T>
struct RowsArgs {
  const T* from;
  std::size_t rows;  // of `from`, or the result: the smaller of both
  unsigned columns, part_packs;
};

template <Device D, class T, RowCall Call, int Parts, RowWay Way, class Function>
class RowRounds {
 public:
  PLAIT_CALLS_HOST
  PLAIT_DEVICE RowRounds(Here<D>& here, const RowsArgs<T>& args, const Function& function)
      : here_(here),
        mail_(here),
        places_(mail_.device()),
        args_(args),
        function_(function),
        rounds_((args.rows + rows_of_round() - 1) / rows_of_round()),
        next_round_(here.block()) {}

  PLAIT_CALLS_HOST
  PLAIT_DEVICE void run() {
    sent_ = step_ = mail_.steps();
    gathering_ = mail_.gatherings();
    if constexpr (adds) {
      load_next();
      for (unsigned i = 0; i < mail_.steps_ahead; ++i) send_next();
    }
    for (std::size_t round = here_.block(); round < rounds_; round += here_.blocks()) {
      if constexpr (adds) {
        if (!add_round(round)) return;
      } else {
        if (!gather_round(round)) return;
      }
    }
    mail_.device().sync();  // all threads have read the numbers
    if (here_.thread() == 0) {
      mail_.steps() = step_;
      mail_.gatherings() = gathering_;
    }
  }

 private:
  static constexpr bool packets = Way == RowWay::packets;
  using P = typename RowMail<D, packets>::P;
  using Elements = Pack<T, 16>;
  using R = Row<D, T, Parts>;
  static constexpr bool adds = Call != RowCall::all_gather;
  static constexpr unsigned step_parts =
                                Way == RowWay::signals_of_narrow_blocks && Parts > 1 ? 2 : 1,
                            row_steps = unsigned{Parts} / step_parts;
  /// One-shot on a GPU: what is sent next has been loaded.
  static constexpr bool loads_ahead = Call == RowCall::one_shot && D::threads_as_launched;
  /// Rows of words that signals are counted in.
  static constexpr unsigned terms = 0, sums = 1;

  /// What the function's `ahead` returns, if it has one.
  template <class Its>
  struct Ahead {
    PLAIT_DEVICE Ahead(const Function&, const Its&) {}
    PLAIT_DEVICE void call(const Function& function, Its& row) const { function(row); }
  };
  template <class Its>
  requires requires(const Function& function, const Its& row) { function.ahead(row); }
  struct Ahead<Its> {
    PLAIT_DEVICE Ahead(const Function& function, const Its& row) : what(function.ahead(row)) {}
    PLAIT_DEVICE void call(const Function& function, Its& row) const { function(row, what); }
    decltype(std::declval<const Function&>().ahead(std::declval<const Its&>())) what;
  };

  PLAIT_DEVICE std::size_t ranks() const { return static_cast<unsigned>(here_.ranks()); }
  PLAIT_DEVICE std::size_t rows_of_round() const { return Call == RowCall::two_shot ? ranks() : 1; }
  PLAIT_DEVICE R row(std::size_t number) {
    return {mail_.device(), places_, number, args_.columns, args_.part_packs};
  }
  PLAIT_DEVICE const P* at(std::size_t row, unsigned column) const {
    return reinterpret_cast<const P*>(args_.from + row * args_.columns + column);
  }
  PLAIT_DEVICE P load(std::size_t row, unsigned column, bool exists) {
    return load_words(mail_.device(), exists ? at(row, column) : mail_.unused());
  }

  /// The row of `from` that rank `owner` adds in the round.
  PLAIT_DEVICE std::size_t term(std::size_t round, int owner) const {
    if constexpr (Call == RowCall::two_shot) {
      return round * ranks() + static_cast<unsigned>(owner);
    } else if constexpr (Call == RowCall::reduce_scatter) {
      return static_cast<unsigned>(owner) * args_.rows + round;
    } else {
      return round;
    }
  }
  PLAIT_DEVICE bool exists(std::size_t term) const {
    return Call != RowCall::two_shot || term < args_.rows;
  }
  /// Calls `f` for the ranks after this one, each rank beginning with another one.
  template <class F>
  PLAIT_DEVICE void each_peer(const F& f) {
    for (int i = 1; i < here_.ranks(); ++i) f(rank_after(here_.rank(), i, here_.ranks()));
  }

  /// Sends the block's next step, if there is one.
  PLAIT_DEVICE void send_next() {
    if (next_round_ >= rounds_) return;
    sent_ = mail_.after(sent_);
    PLAIT_UNROLL
    for (unsigned part = 0; part < step_parts; ++part) send(part);
    mail_.post(terms);
    if (++next_step_ == row_steps) {
      next_step_ = 0;
      next_round_ += here_.blocks();
    }
    load_next();
  }
  PLAIT_DEVICE void load_next() {
    if constexpr (loads_ahead) {
      if (next_round_ >= rounds_) return;
      PLAIT_UNROLL
      for (unsigned part = 0; part < step_parts; ++part)
        row(0).each_place(next_step_ * step_parts + part,
                          [&](unsigned, unsigned column, bool has)
                              PLAIT_INLINED { next_[part] = load(next_round_, column, has); });
    }
  }
  PLAIT_DEVICE void send(unsigned part) {
    row(0).each_place(next_step_ * step_parts + part,
                      [&](unsigned place, unsigned column, bool has) PLAIT_INLINED {
                        each_peer([&](int peer) PLAIT_INLINED {
                          const std::size_t its = term(next_round_, peer);
                          if (!packets && !(has && exists(its))) return;
                          const P mine = loads_ahead ? next_[part] : load(its, column, has);
                          mail_.put(mail_.slot_of(sent_, peer, here_.rank()), sent_,
                                    part * args_.part_packs + place, mine);
                        });
                      });
  }

  PLAIT_DEVICE bool add_round(std::size_t round) {
    const std::size_t mine = term(round, here_.rank());
    // Without a row, it looks ahead for another one.
    R sum = row(Call == RowCall::reduce_scatter ? round : exists(mine) ? mine : args_.rows - 1);
    const Ahead<R> ahead(function_, sum);
    PLAIT_UNROLL
    for (unsigned step = 0; step < row_steps; ++step) {
      send_next();
      step_ = mail_.after(step_);
      if (!mail_.await(terms)) return false;
      PLAIT_UNROLL
      for (unsigned part = 0; part < step_parts; ++part)
        if (!add(sum, step * step_parts + part, part, mine)) return false;
    }
    if constexpr (Call == RowCall::two_shot) {
      mail_.post(sums);
      return call_for_all(round, ahead);
    } else {
      ahead.call(function_, sum);
      return true;
    }
  }

  PLAIT_DEVICE bool add(R& sum, unsigned part, unsigned part_of_step, std::size_t mine) {
    if constexpr (packets) {  // with more, clang keeps f32 of long rows on a stack on AMD GPUs
      return add_by<(Parts == 4 ? 1 : 2)>(sum, part, part_of_step, mine);
    } else if constexpr (Call == RowCall::two_shot) {  // hardly for two ranks
      return add_by<4>(sum, part, part_of_step, mine);
    } else {
      return here_.ranks() == 2 ? add_by<2>(sum, part, part_of_step, mine)
                                : add_by<4>(sum, part, part_of_step, mine);
    }
  }
  /// In rank order. `Batch`: ranks whose packs are loaded at once.
  template <int Batch>
  PLAIT_DEVICE bool add_by(R& sum, unsigned part, unsigned part_of_step, std::size_t mine) {
    const Reducer<T> reducer(Reduction{.ranks = here_.ranks()});
    const auto slot = [&](int writer)
                          PLAIT_INLINED { return mail_.slot_of(step_, here_.rank(), writer); };
    bool came = true;
    sum.each_place(part, [&](unsigned place, unsigned column, bool has) PLAIT_INLINED {
      if (!came || (!packets && !(has && exists(mine)))) return;
      const P* const own = has ? at(mine, column) : mail_.unused();
      typename Reducer<T>::template Accumulator<Elements::lanes> acc;
      for (int first = 0; first < here_.ranks(); first += Batch) {
        P packs[Batch];
        came = came &&
               mail_.take(first, slot, own, step_, part_of_step * args_.part_packs + place, packs);
        if (!came) return;
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j) {
          const auto elements = bits_as<Elements>(packs[j]);
          if (j == 0 && first == 0) acc = reducer.start(elements);
          else if (first + j < here_.ranks()) reducer.add(acc, elements);
        }
      }
      if (!has) return;
      const Elements rounded = reducer.template finish<16>(acc);
      if constexpr (Call == RowCall::two_shot) {
        share(gathering_ + 1, part, place, bits_as<P>(rounded));
      }
      sum.set(part, column, rounded);
    });
    return came;
  }

  /// `number`: of the gathering, or of a step of packets.
  PLAIT_DEVICE void share(std::uint32_t number, unsigned part, unsigned place, const P& pack) {
    each_peer([&](int peer) PLAIT_INLINED {
      mail_.put(gathered(number, peer, here_.rank()), number, place_in_slot(part, place), pack);
    });
  }
  PLAIT_DEVICE std::byte* gathered(std::uint32_t number, int owner, int writer) const {
    return packets ? mail_.slot_of(number, owner, writer) : mail_.gathered(number, owner, writer);
  }
  /// A slot of packets has one part, and one of a gathering all parts of a row.
  PLAIT_DEVICE unsigned place_in_slot(unsigned part, unsigned place) const {
    return packets ? place : part * args_.part_packs + place;
  }
  /// The number under which a part of the next gathering travels.
  PLAIT_DEVICE std::uint32_t number_of(unsigned part) const {
    if constexpr (packets) {
      std::uint32_t step = step_;
      for (unsigned i = 0; i <= part; ++i) step = mail_.after(step);
      return step;
    } else {
      return gathering_ + 1;
    }
  }

  PLAIT_DEVICE bool gather_round(std::size_t round) {
    R own = row(static_cast<unsigned>(here_.rank()) * args_.rows + round);
    const Ahead<R> ahead(function_, own);
    PLAIT_UNROLL
    for (unsigned part = 0; part < unsigned{Parts}; ++part)
      own.each_place(part, [&](unsigned place, unsigned column, bool has) PLAIT_INLINED {
        const P mine = load(round, column, has);
        if (packets || has) share(number_of(part), part, place, mine);
        if (has) own.set(part, column, bits_as<Elements>(mine));
      });
    mail_.post(sums);
    return call_for_all(round, ahead);
  }

  /// Gives the function the block's own row, which is there, and then the row of each other rank.
  PLAIT_DEVICE bool call_for_all(std::size_t round, Ahead<R> ahead) {
    for (int i = 0; i < here_.ranks(); ++i) {
      const int owner = rank_after(here_.rank(), i, here_.ranks());
      const std::size_t number =
          adds ? term(round, owner) : static_cast<unsigned>(owner) * args_.rows + round;
      if (i == 1 && !mail_.await(sums)) return false;
      if (!exists(number)) continue;
      R its = row(number);
      if (i > 0) {
        ahead = Ahead<R>(function_, its);
        bool came = true;
        PLAIT_UNROLL
        for (unsigned part = 0; part < unsigned{Parts}; ++part)
          came = take_part(its, part, owner) && came;
        if (!came) return false;
      }
      ahead.call(function_, its);
    }
    if constexpr (packets) {
      step_ = number_of(Parts - 1);
    } else {
      ++gathering_;
    }
    return true;
  }
  PLAIT_DEVICE bool take_part(R& its, unsigned part, int peer) {
    const std::uint32_t number = number_of(part);
    const auto slot = [&](int writer)
                          PLAIT_INLINED { return gathered(number, here_.rank(), writer); };
    bool came = true;
    its.each_place(part, [&](unsigned place, unsigned column, bool has) PLAIT_INLINED {
      if (!packets && !has) return;
      P pack[1];
      came =
          came && mail_.take(peer, slot, mail_.unused(), number, place_in_slot(part, place), pack);
      if (has && came) its.set(part, column, bits_as<Elements>(pack[0]));
    });
    return came;
  }

  Here<D>& here_;
  RowMail<D, packets> mail_;
  typename R::Places places_;
  const RowsArgs<T>& args_;
  const Function& function_;
  std::size_t rounds_, next_round_;  // `next_`: what is sent next
  unsigned next_step_ = 0;
  P next_[step_parts];
  std::uint32_t sent_ = 0, step_ = 0, gathering_ = 0;
};

}  // namespace plait::detail
