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
  unsigned rows;  // of `from`, or the result: the smaller of both
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
      static_assert(RowMail<D, packets>::steps_ahead == 1);
      load_next();
      send_next(own_);
    }
    for (unsigned round = here_.block(); round < rounds_; round += here_.blocks()) {
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
  using Packs = P[step_parts];  // a thread's, of a step
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

  PLAIT_DEVICE unsigned ranks() const { return static_cast<unsigned>(here_.ranks()); }
  PLAIT_DEVICE unsigned rows_of_round() const { return Call == RowCall::two_shot ? ranks() : 1; }
  PLAIT_DEVICE R row(unsigned number) {
    return {mail_.device(), places_, number, args_.columns, args_.part_packs};
  }
  /// Zeros of places that there are not: another thread may store over any other.
  PLAIT_DEVICE P load(unsigned row, unsigned column, bool exists) {
    P pack{};
    if (exists && column < args_.columns)
      pack = load_words(
          mail_.device(),
          reinterpret_cast<const P*>(args_.from + std::size_t{row} * args_.columns + column));
    return pack;
  }

  /// The row of `from` that rank `owner` adds in the round.
  PLAIT_DEVICE unsigned term(unsigned round, int owner) const {
    if constexpr (Call == RowCall::two_shot) {
      return round * ranks() + static_cast<unsigned>(owner);
    } else if constexpr (Call == RowCall::reduce_scatter) {
      return static_cast<unsigned>(owner) * args_.rows + round;
    } else {
      return round;
    }
  }
  PLAIT_DEVICE bool exists(unsigned term) const {
    return Call != RowCall::two_shot || term < args_.rows;
  }
  /// Calls `f` for the ranks after this one, each rank beginning with another one.
  template <class F>
  PLAIT_DEVICE void each_peer(const F& f) {
    PLAIT_NO_UNROLL
    for (int i = 1; i < here_.ranks(); ++i) f(rank_after(here_.rank(), i, here_.ranks()));
  }

  /// Sends the block's next step, if there is one, and says what its packs are.
  PLAIT_DEVICE void send_next(Packs& sent) {
    if (next_round_ >= rounds_) return;
    sent_ = mail_.after(sent_);
    row(0).each_place([&](unsigned place) PLAIT_INLINED { send(place); });
    mail_.post(terms);
    if (++next_step_ == row_steps) {
      next_step_ = 0;
      next_round_ += here_.blocks();
    }
    if constexpr (loads_ahead) {
      PLAIT_UNROLL
      for (unsigned part = 0; part < step_parts; ++part) sent[part] = next_[part];
      load_next();
    }
  }
  PLAIT_DEVICE void load_next() {
    if constexpr (loads_ahead) {
      if (next_round_ >= rounds_) return;
      row(0).each_place([&](unsigned place)
                            PLAIT_INLINED { load_step(next_, next_round_, next_step_, place); });
    }
  }
  /// A thread's packs of a step of a row of `from`.
  PLAIT_DEVICE void load_step(Packs& packs, unsigned term, unsigned step, unsigned place) {
    PLAIT_UNROLL
    for (unsigned part = 0; part < step_parts; ++part) {
      const unsigned column = row(0).column_of(step * step_parts + part, place);
      packs[part] = load(term, column, exists(term));
    }
  }
  PLAIT_DEVICE void send(unsigned place) {
    std::byte* const slot = mail_.slot_of(sent_, here_.rank());
    each_peer([&](int peer) PLAIT_INLINED {
      const unsigned its = term(next_round_, peer);
      Packs loaded;
      if constexpr (!loads_ahead) load_step(loaded, its, next_step_, place);
      PLAIT_UNROLL
      for (unsigned part = 0; part < step_parts; ++part) {
        const unsigned column = row(0).column_of(next_step_ * step_parts + part, place);
        if (!packets && !(column < args_.columns && exists(its))) continue;
        mail_.put(mail_.at(peer, slot), sent_, part * args_.part_packs + place,
                  loads_ahead ? next_[part] : loaded[part]);
      }
    });
  }

  PLAIT_DEVICE bool add_round(unsigned round) {
    const unsigned mine = term(round, here_.rank());
    // Without a row, it looks ahead for another one.
    R sum = row(Call == RowCall::reduce_scatter ? round : exists(mine) ? mine : args_.rows - 1);
    const Ahead<R> ahead(function_, sum);
    PLAIT_UNROLL
    for (unsigned step = 0; step < row_steps; ++step) {
      Packs next = {};
      send_next(next);
      step_ = mail_.after(step_);
      if (!mail_.await(terms)) return false;
      if (!add(sum, step, mine)) return false;
      if constexpr (loads_ahead) {
        PLAIT_UNROLL
        for (unsigned part = 0; part < step_parts; ++part) own_[part] = next[part];
      }
    }
    if constexpr (Call == RowCall::two_shot) {
      mail_.post(sums);
      return call_for_all(round, ahead);
    } else {
      ahead.call(function_, sum);
      return true;
    }
  }

  PLAIT_DEVICE bool add(R& sum, unsigned step, unsigned mine) {
    constexpr bool many = Call == RowCall::two_shot;  // hardly for two ranks
    bool came = true;
    sum.each_place([&](unsigned place) PLAIT_INLINED {
      if (!came) return;
      if constexpr (!loads_ahead) load_step(own_, mine, step, place);
      Accumulators added;
      if (many || here_.ranks() != 2) came = add_all(added, place);
      else came = add_two(added, place);
      if (!came) return;
      PLAIT_UNROLL
      for (unsigned part = 0; part < step_parts; ++part) {
        const unsigned of_row = step * step_parts + part, column = sum.column_of(of_row, place);
        if (column >= args_.columns || !exists(mine)) continue;
        const Elements rounded = reducer().template finish<16>(added.part[part]);
        if constexpr (Call == RowCall::two_shot) {
          share(gathering_ + 1, of_row, place, bits_as<P>(rounded));
        }
        sum.set(of_row, column, rounded);
      }
    });
    return came;
  }
  struct Accumulators {
    typename Reducer<T>::template Accumulator<Elements::lanes> part[step_parts];
  };
  PLAIT_DEVICE Reducer<T> reducer() const { return Reducer<T>(Reduction{.ranks = here_.ranks()}); }
  /// Takes the packs of a step that `Count` ranks have sent.
  template <int Count>
  PLAIT_DEVICE bool take_step(int first, unsigned place, P (&packs)[step_parts][Count]) {
    unsigned places[step_parts];
    PLAIT_UNROLL
    for (unsigned part = 0; part < step_parts; ++part)
      places[part] = part * args_.part_packs + place;
    const auto slot = [&](int writer) PLAIT_INLINED { return mail_.slot_of(step_, writer); };
    return mail_.take(first, slot, own_, step_, places, packs);
  }
  /// In rank order.
  PLAIT_DEVICE bool add_two(Accumulators& added, unsigned place) {
    P theirs[step_parts][1];
    if (!take_step(1 - here_.rank(), place, theirs)) return false;
    PLAIT_UNROLL
    for (unsigned part = 0; part < step_parts; ++part) {
      const bool is_first = here_.rank() == 0;
      const P first = is_first ? own_[part] : theirs[part][0];
      const P second = is_first ? theirs[part][0] : own_[part];
      added.part[part] = reducer().start(bits_as<Elements>(first));
      reducer().add(added.part[part], bits_as<Elements>(second));
    }
    return true;
  }
  PLAIT_DEVICE bool add_all(Accumulators& added, unsigned place) {
    // More of them clang would keep on a stack on AMD GPUs.
    constexpr int batch = !packets ? 4 : Parts == 4 ? 1 : 2;
    PLAIT_NO_UNROLL
    for (int first = 0; first < here_.ranks(); first += batch) {
      P packs[step_parts][batch];
      if (!take_step(first, place, packs)) return false;
      PLAIT_UNROLL
      for (unsigned part = 0; part < step_parts; ++part) {
        PLAIT_UNROLL
        for (int j = 0; j < batch; ++j) {
          const auto elements = bits_as<Elements>(packs[part][j]);
          if (j == 0 && first == 0) added.part[part] = reducer().start(elements);
          else if (first + j < here_.ranks()) reducer().add(added.part[part], elements);
        }
      }
    }
    return true;
  }

  /// `number`: of the gathering, or of a step of packets.
  PLAIT_DEVICE void share(std::uint32_t number, unsigned part, unsigned place, const P& pack) {
    std::byte* const slot = gathered(number, here_.rank());
    each_peer([&](int peer) PLAIT_INLINED {
      mail_.put(mail_.at(peer, slot), number, place_in_slot(part, place), pack);
    });
  }
  PLAIT_DEVICE std::byte* gathered(std::uint32_t number, int writer) const {
    return packets ? mail_.slot_of(number, writer) : mail_.gathered(number, writer);
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

  PLAIT_DEVICE bool gather_round(unsigned round) {
    R own = row(static_cast<unsigned>(here_.rank()) * args_.rows + round);
    const Ahead<R> ahead(function_, own);
    PLAIT_UNROLL
    for (unsigned part = 0; part < unsigned{Parts}; ++part)
      own.each_place([&](unsigned place) PLAIT_INLINED {
        const unsigned column = own.column_of(part, place);
        const bool has = column < args_.columns;
        const P mine = load(round, column, true);
        if (packets || has) share(number_of(part), part, place, mine);
        if (has) own.set(part, column, bits_as<Elements>(mine));
      });
    mail_.post(sums);
    return call_for_all(round, ahead);
  }

  /// Gives the function the block's own row, which is there, and then the row of each other rank.
  PLAIT_DEVICE bool call_for_all(unsigned round, Ahead<R> ahead) {
    for (int i = 0; i < here_.ranks(); ++i) {
      const int owner = rank_after(here_.rank(), i, here_.ranks());
      const unsigned number =
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
    const auto slot = [&](int writer) PLAIT_INLINED { return gathered(number, writer); };
    bool came = true;
    its.each_place([&](unsigned place) PLAIT_INLINED {
      const unsigned column = its.column_of(part, place);
      const bool has = column < args_.columns;
      if ((!packets && !has) || !came) return;
      const P own[1] = {};
      const unsigned places[1] = {place_in_slot(part, place)};
      P pack[1][1];
      came = mail_.take(peer, slot, own, number, places, pack);
      if (has && came) its.set(part, column, bits_as<Elements>(pack[0][0]));
    });
    return came;
  }

  Here<D>& here_;
  RowMail<D, packets> mail_;
  typename R::Places places_;
  const RowsArgs<T>& args_;
  const Function& function_;
  unsigned rounds_, next_round_;  // `next_`: what is sent next
  unsigned next_step_ = 0;
  Packs next_, own_;  // of the step that is sent next, and of the one that is added next
  std::uint32_t sent_ = 0, step_ = 0, gathering_ = 0;
};

}  // namespace plait::detail
