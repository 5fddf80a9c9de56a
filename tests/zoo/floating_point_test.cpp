// The rules of docs/floating-point.md, over all algorithms that reduce: the caller's floating-point
// environment changes nothing, a NaN has one bit pattern, and an average neither overflows nor
// loses precision.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "support/ranks.hpp"
#include "support/reductions.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plait::test {
namespace {

template <class T>
BitsOf<T> bits_of(T x) {
  return bits_as<BitsOf<T>>(x);
}
template <class T>
constexpr BitsOf<T> sign_of = static_cast<BitsOf<T>>(BitsOf<T>{1} << (8 * sizeof(T) - 1));
/// All ones below the sign.
template <class T>
constexpr BitsOf<T> the_nan = static_cast<BitsOf<T>>(sign_of<T> - 1);

constexpr DataType float_types[] = {DataType::f16,    DataType::bf16, DataType::f8e4m3,
                                    DataType::f8e5m2, DataType::f32,  DataType::f64};
constexpr ReduceOp float_operations[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
                                         ReduceOp::max, ReduceOp::avg,  ReduceOp::premul_sum};

/// Calls body<T>() for all floats.
template <class Body>
void for_floats(Body body) {
  for (const DataType type : float_types)
    dispatch(type, [&]<class T>() {
      if constexpr (!std::is_integral_v<T>) body.template operator()<T>();
    });
}

#if defined(__x86_64__)
/// MXCSR: its modes, and one exception flag that was raised before.
constexpr unsigned flush = 0x8040, towards_zero = 0x6000, upwards = 0x4000, downwards = 0x2000,
                   masked = 0x1f80, raised_before = 0x10;
constexpr unsigned trapping =
    0x1f80 &
    ~(0x80u | 0x200u | 0x400u | 0x800u);  // as gfortran -ffpe-trap=invalid,zero,overflow,underflow
constexpr unsigned environments[] = {
    masked | flush, masked | towards_zero, masked | flush | upwards, masked | downwards,
    trapping,       trapping | flush};
unsigned environment_now() { return _mm_getcsr(); }
void set_environment(unsigned value) { _mm_setcsr(value | raised_before); }
#else
constexpr unsigned environments[] = {FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
unsigned environment_now() { return static_cast<unsigned>(std::fegetround()); }
void set_environment(unsigned value) { std::fesetround(static_cast<int>(value)); }
#endif

/// This thread's environment for the life of the object.
class InEnvironment {
 public:
  explicit InEnvironment(unsigned value) : before_(environment_now()) { set_environment(value); }
  ~InEnvironment() {
#if defined(__x86_64__)
    _mm_setcsr(before_);
#else
    set_environment(before_);
#endif
  }
  InEnvironment(const InEnvironment&) = delete;
  InEnvironment& operator=(const InEnvironment&) = delete;

 private:
  unsigned before_;
};

class FloatingPoint : public ForRanks {
 protected:
  static void run(const std::function<void(Communicator&, Arena&, const ReducingSubject&)>& body) {
    ForRanks::run([&](Communicator& comm, Arena& arena) {
      for (const ReducingSubject& subject : reducing_subjects(comm)) body(comm, arena, subject);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, FloatingPoint, testing::Values(2, 3, 5, 8), TestName());

/// Every code of 16-bit and 8-bit floats on rank 0, and any bits elsewhere, of which every fourth
/// is subnormal.
template <class T>
T any_bits(int rank, std::size_t i) {
  const std::uint64_t h = hash(11, static_cast<std::uint64_t>(rank), i);
  if (sizeof(T) <= 2 && rank == 0) return bits_as<T>(static_cast<BitsOf<T>>(i));
  auto bits = static_cast<BitsOf<T>>(h);
  if (sizeof(T) >= 4 && (h >> 7) % 4 == 0)
    bits &= static_cast<BitsOf<T>>(sign_of<T> | (sign_of<T> >> (sizeof(T) == 4 ? 10 : 14)));
  if (sizeof(T) >= 4 && (h >> 7) % 4 == 1)
    bits &= static_cast<BitsOf<T>>(sign_of<T> | ((sign_of<T> >> (sizeof(T) == 4 ? 8 : 11)) - 1));
  return bits_as<T>(bits);
}

/// One reduction in all environments, on all ranks or on some.
template <class T>
void check_environments(Communicator& comm, Arena& arena, const ReducingSubject& subject,
                        ReduceOp op, std::size_t count) {
  ReductionOf<T> reduction(comm, arena, subject, count);
  reduction.fill([&](std::size_t i) { return any_bits<T>(comm.rank(), i); });
  reduction.call(op);
  const std::vector<T> wanted = reduction.result();
  int number = 0;
  for (const unsigned environment : environments) {
    const bool mine = number++ % 2 == 0 || comm.rank() % 2 == 1;
    unsigned before = 0, after = 0;
    reduction.call(op, [&](const auto& body) {
      if (!mine) return body();
      const InEnvironment caller(environment);
      before = environment_now();
      body();
      after = environment_now();
    });
    if (before != after)
      report(comm,
             fmt::format("{}, {} of {}: the caller's environment was {:#x} and is {:#x}",
                         subject.describe(), name_of(op), name_of(data_type_of<T>), before, after));
    const std::vector<T> got = reduction.result();
    for (std::size_t i = 0; i < got.size(); ++i)
      if (bits_of(got[i]) != bits_of(wanted[i]))
        return report(
            comm,
            fmt::format("{}, {} of {}, environment {:#x}: element {} is {:#x} instead of {:#x}",
                        subject.describe(), name_of(op), name_of(data_type_of<T>), environment, i,
                        bits_of(got[i]), bits_of(wanted[i])));
  }
}

TEST_P(FloatingPoint, TheCallersEnvironmentChangesNothing) {
  if (GetParam() > 3) GTEST_SKIP() << "as with three";
  run([](Communicator& comm, Arena& arena, const ReducingSubject& subject) {
    for_floats([&]<class T>() {
      for (const ReduceOp op : float_operations)
        check_environments<T>(comm, arena, subject, op,
                              sizeof(T) == 1 ? 256 : 515 + static_cast<std::size_t>(op) % 2 * 2);
    });
    // Conversions are the same in all operations.
    if (subject.collective == Collective::all_reduce)
      check_environments<f16>(comm, arena, subject, ReduceOp::max, 65536);
  });
}

/// The same for communicators that are made in an environment, with the threads that they start,
/// and chosen algorithms.
TEST(FloatingPointAtCreation, TheCallersEnvironmentChangesNothing) {
  constexpr int ranks = 2;
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  for (const unsigned environment : environments) {
    with_bootstraps(ranks, [&](std::unique_ptr<Bootstrap> bootstrap, int) {
      const InEnvironment caller(environment);
      Communicator comm = Communicator::create(std::move(bootstrap), test_options());
      Communicator part = comm.duplicate();
      auto data = part.allocate<std::uint8_t>(4);
      Backend& backend = backend_of(part);
      const std::uint8_t codes[] = {0x01, 0x04, 0x07, 0x08};
      std::uint8_t sums[4] = {};
      backend.copy(data.data(), codes, sizeof codes, nullptr);
      part.all_reduce(data.data(), data.data(), 4, DataType::f8e4m3, ReduceOp::sum);
      backend.copy(sums, data.data(), sizeof sums, nullptr);
      part.synchronize();
      EXPECT_EQ(std::vector<int>(std::begin(sums), std::end(sums)),
                (std::vector<int>{0x02, 0x08, 0x0e, 0x10}))
          << fmt::format("{:#x}", environment);
    });
  }
}

/// Half of the elements are NaNs of any payload and sign; the others small numbers and, where a
/// format has them, infinities.
template <class T>
T nan_or_number(int rank, std::size_t i) {
  const std::uint64_t h = hash(23, static_cast<std::uint64_t>(rank), i);
  constexpr bool finite = std::is_same_v<T, f8e4m3>;
  const auto infinity = bits_of(finite ? to<T>(1) : to<T>(std::numeric_limits<double>::infinity()));
  const auto sign = (h & 1) != 0 ? sign_of<T> : BitsOf<T>{0};
  if (i % 3 != 0 && (h >> 1) % 2 == 0) {  // every third element has no NaN on any rank
    if constexpr (finite) return bits_as<T>(static_cast<BitsOf<T>>(the_nan<T> | sign));
    const auto payload = static_cast<BitsOf<T>>((h >> 8) & (the_nan<T> ^ infinity));
    return bits_as<T>(static_cast<BitsOf<T>>(infinity | sign | (payload == 0 ? 1 : payload)));
  }
  if ((h >> 2) % 8 == 0) return bits_as<T>(static_cast<BitsOf<T>>(infinity | sign));
  return to<T>(((h & 1) != 0 ? -1 : 1) * ((h >> 3) % 2 == 0 ? 1 : 0.5));
}

/// The result in f64: NaN where the result must be one.
template <class T>
double reduced(ReduceOp op, int ranks, std::size_t i) {
  double result = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    double x = widen(nan_or_number<T>(rank, i));
    if (op == ReduceOp::premul_sum) x *= 1.25;
    if (rank == 0) result = x;
    else if (op == ReduceOp::min ||
             op == ReduceOp::max)  // fmin and fmax take signalling NaNs otherwise
      result = std::isnan(result) || (op == ReduceOp::min ? x < result : x > result) ? x : result;
    else result = op == ReduceOp::prod ? result * x : result + x;
  }
  return result;
}

TEST_P(FloatingPoint, ANaNHasOneBitPattern) {
  run([](Communicator& comm, Arena& arena, const ReducingSubject& subject) {
    for_floats([&]<class T>() {
      const std::size_t count = 515;
      ReductionOf<T> reduction(comm, arena, subject, count);
      reduction.fill([&](std::size_t i) { return nan_or_number<T>(comm.rank(), i); });
      for (const ReduceOp op : float_operations) {
        reduction.call(op);
        const std::vector<T> got = reduction.result();
        if (subject.collective == Collective::all_reduce &&
            !same_on_all_ranks(comm, got.data(), got.size() * sizeof(T)))
          report(comm, fmt::format("{}, {} of {}: ranks have different bits", subject.describe(),
                                   name_of(op), name_of(data_type_of<T>)));
        for (std::size_t i = 0; i < got.size(); ++i) {
          const bool nan = std::isnan(reduced<T>(op, comm.size(), reduction.first() + i));
          if (nan ? bits_of(got[i]) == the_nan<T> : !std::isnan(widen(got[i]))) continue;
          report(comm, fmt::format("{}, {} of {}: element {} is {:#x}, and must be {}",
                                   subject.describe(), name_of(op), name_of(data_type_of<T>), i,
                                   bits_of(got[i]), nan ? "the NaN" : "a number"));
          break;
        }
      }
    });
  });
}

/// The type of an element's parts that are floats: two of a complex number, one of a pair.
template <class T>
auto part_of() {
  if constexpr (is_complex_number<T>) return typename T::value_type{};
  else if constexpr (is_pair<T>) return decltype(T::value){};
  else return T{};
}

/// A call of elements with NaNs, in place and out of place.
template <class T>
void check_places(Communicator& comm, Arena& arena, const Case& wanted) {
  using F = decltype(part_of<T>());
  constexpr std::size_t step = is_pair<T> ? sizeof(T) : sizeof(F);  // from one part to the next
  const Call call = wanted.call(comm.size());
  DeviceArray &send = arena.symmetric_send, &recv = arena.symmetric_recv;
  const std::size_t bytes = call.count * sizeof(T),
                    sent = bytes * static_cast<std::size_t>(parts_of(call.collective, comm.size())),
                    own = sent == bytes ? 0 : bytes * static_cast<std::size_t>(comm.rank());
  std::vector<std::byte> results[2];
  for (const bool in_place : {false, true}) {
    send.place(0, sent);
    recv.place(0, bytes);
    std::memset(send.image(), 0, sent);
    for (std::size_t i = 0; i < sent / step; ++i) {
      const F x = nan_or_number<F>(comm.rank(), i);
      std::memcpy(send.image() + i * step, &x, sizeof(F));
    }
    send.upload({});
    comm.enqueue(call, send.device(),
                 in_place ? static_cast<std::byte*>(send.device()) + own : recv.device(), {},
                 wanted.options());
    send.download({});
    recv.download({});
    comm.synchronize();
    const std::byte* const result = in_place ? send.image() + own : recv.image();
    results[in_place ? 1 : 0].assign(result, result + bytes);
  }
  if (terms_of(call.collective, comm.rank(), comm.size()) == 0 ||
      (facts_of(call.collective).recv.root_only && comm.rank() != call.root))
    return;
  if (results[0] != results[1]) report(comm, wanted.describe() + ": other bits in place");
  std::size_t nans = 0;
  for (std::size_t i = 0; i < bytes / step; ++i) {
    F x;
    std::memcpy(&x, results[0].data() + i * step, sizeof(F));
    if (!std::isnan(widen(x))) continue;
    if (++nans; bits_of(x) != the_nan<F>)
      return report(comm, fmt::format("{}: part {} is {:#x}", wanted.describe(), i, bits_of(x)));
  }
  if (nans == 0) report(comm, wanted.describe() + ": no NaN was there");
}

/// The result of one term, too: by one rank, and of a scan.
TEST(FloatingPointPlaces, ANaNHasOneBitPatternInPlaceAndOutOfPlace) {
  std::vector<Subject> subjects = all_algorithms();
  for (const Collective collective : collectives) subjects.emplace_back(collective, "");
  for (const int ranks : {1, 2, 3}) {
    if (!why_not(ranks).empty()) continue;
    RankGroup::cached(ranks).run([&](Communicator& comm, Arena& arena) {
      for (const Subject& subject : subjects)
        for (int type = 0; type < data_type_count; ++type)
          for (int op = 0; op < reduce_op_count; ++op) {
            const Case wanted = subject.of({.type = static_cast<DataType>(type),
                                            .op = static_cast<ReduceOp>(op),
                                            .count = 192,
                                            .symmetric = true});
            if (!facts_of(wanted.collective).reduces || !is_reduced(wanted.type, wanted.op) ||
                is_integer(wanted.type) ||
                (wanted.op == ReduceOp::avg && is_scan(wanted.collective)) ||
                !is_served(comm, wanted))
              continue;
            dispatch_all(wanted.type, [&]<class T>() {
              using F = decltype(part_of<T>());
              if constexpr (!std::is_same_v<T, Truth> && !std::is_integral_v<F>)
                check_places<T>(comm, arena, wanted);
            });
          }
    });
  }
}

template <class T, class Element, class Right>
void check_averages(Communicator& comm, Arena& arena, const ReducingSubject& subject,
                    Element element, Right right) {
  ReductionOf<T> reduction(comm, arena, subject, 515);
  reduction.fill([&](std::size_t i) { return element(comm.rank(), i); });
  reduction.call(ReduceOp::avg);
  const std::vector<T> got = reduction.result();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (right(got[i], reduction.first() + i)) continue;
    return report(comm, fmt::format("{}, average of {}: element {} is {:#x}, {}",
                                    subject.describe(), name_of(data_type_of<T>), i,
                                    bits_of(got[i]), static_cast<double>(widen(got[i]))));
  }
}

/// Averages the largest number, for 8-bit floats the largest power of two, because eight of them
/// have partial sums that are exact. The sum of two of them overflows.
TEST_P(FloatingPoint, AveragesDoNotOverflow) {
  run([](Communicator& comm, Arena& arena, const ReducingSubject& subject) {
    for_floats([&]<class T>() {
      const auto infinity =
          bits_of(to<T>(std::numeric_limits<double>::infinity()));  // of f8e4m3 the NaN
      const double largest = widen(bits_as<T>(static_cast<BitsOf<T>>(infinity - 1)));
      const T term = to<T>(sizeof(T) == 1 ? std::exp2(std::floor(std::log2(largest))) : largest);
      const double value = widen(term);
      const int ranks = comm.size();
      check_averages<T>(
          comm, arena, subject,
          [&](int, std::size_t i) {
            return i % 2 == 0 ? term
                              : bits_as<T>(static_cast<BitsOf<T>>(bits_of(term) | sign_of<T>));
          },
          [&](T got, std::size_t i) {
            const double average = widen(got), wanted = i % 2 == 0 ? value : -value;
            return ranks == 2 || sizeof(T) == 1
                       ? average == wanted
                       : std::abs(average / value - wanted / value) <= ranks * epsilon_of<T>() / 2;
          });
    });
  });
}

TEST_P(FloatingPoint, AveragesAreExactWhereTheSumIs) {
  run([](Communicator& comm, Arena& arena, const ReducingSubject& subject) {
    for_floats([&]<class T>() {
      // All ranks have the same integer, or integers whose sum is a multiple of their number.
      const auto average = [](std::size_t i) {
        return sizeof(T) == 1 ? 1 : static_cast<int>(i % 15) + 1;
      };
      const auto spread = [&](int rank) { return sizeof(T) >= 4 ? 2 * rank + 1 - comm.size() : 0; };
      check_averages<T>(
          comm, arena, subject,
          [&](int rank, std::size_t i) { return to<T>(average(i) + spread(rank)); },
          [&](T got, std::size_t i) { return static_cast<double>(widen(got)) == average(i); });
    });
  });
}

/// With two ranks there is one order of the sum but for the exchange of its terms, so all
/// algorithms give the same bits.
TEST_P(FloatingPoint, AveragesOfTwoAreTheSameByAllAlgorithms) {
  if (GetParam() != 2) GTEST_SKIP() << "sums of more ranks have several orders";
  run([](Communicator& comm, Arena& arena, const ReducingSubject& subject) {
    const auto same = [&]<class T>(T) {
      check_averages<T>(
          comm, arena, subject, [](int rank, std::size_t i) { return any_bits<T>(rank, i + 1000); },
          [](T got, std::size_t i) {
            return bits_of(got) == bits_of(narrow<T>(std::ldexp(any_bits<T>(0, i + 1000), -1) +
                                                     std::ldexp(any_bits<T>(1, i + 1000), -1)));
          });
    };
    same(float{});
    same(double{});
  });
}

}  // namespace
}  // namespace plait::test
