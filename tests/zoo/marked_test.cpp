// All-reduces in data that marks its own arrival (algorithms/blocks/flags/marked.hpp): no pattern
// of bits is lost, wherever in a slot it lies.
#include "algorithms/blocks/flags/marked.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

template <class T>
using Bits = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

/// All patterns of 8 and 16 bits. Of wider types, those that a mark could be mistaken for, the
/// limits of each kind of number, and many others.
template <class T>
std::vector<Bits<T>> patterns() {
  using B = Bits<T>;
  constexpr int bits = 8 * sizeof(T);
  std::vector<B> all;
  if constexpr (bits <= 16) {
    for (std::uint32_t code = 0; code < 1u << bits; ++code) all.push_back(static_cast<B>(code));
  } else {
    std::set<B> special;
    for (int shift = 0; shift < bits; ++shift)
      for (const B base : {B{0}, static_cast<B>(~B{0})})
        for (const B change : {B{1}, static_cast<B>(~B{0})}) {
          special.insert(static_cast<B>(base ^ (change << shift)));
          special.insert(static_cast<B>(base ^ (change >> shift)));
        }
    all.assign(special.begin(), special.end());
    for (std::uint64_t i = 0; i < 4096; ++i) all.push_back(static_cast<B>(hash(77, bits, i)));
  }
  return all;
}

constexpr std::uint64_t all_ones = ~std::uint64_t{0};

template <class T>
class Marks : public testing::Test {};
using Floats = testing::Types<f16, bf16, f8e4m3, f8e5m2, float, double>;
TYPED_TEST_SUITE(Marks, Floats);

/// At every position of a slot, among elements with all bits set, among zeros and among others.
TYPED_TEST(Marks, ChangeOnlyWordsOfNaNs) {
  using T = TypeParam;
  constexpr std::size_t lanes = MarkedPack<T>::lanes;
  for (const Bits<T> neighbour : {Bits<T>(all_ones), Bits<T>{0}, Bits<T>{1}})
    for (std::size_t position = 0; position < lanes; ++position)
      for (const Bits<T> pattern : patterns<T>()) {
        std::array<Bits<T>, lanes> elements;
        elements.fill(neighbour);
        elements[position] = pattern;
        const auto pack = bits_as<MarkedPack<T>>(elements);
        const Marked sent = marked(bits_as<Marked>(pack));
        ASSERT_NE(sent.word[0], 0u);
        ASSERT_NE(sent.word[1], 0u);
        const auto got = bits_as<MarkedPack<T>>(unmarked(sent));
        const auto before = bits_as<Marked>(pack), after = bits_as<Marked>(got);
        for (std::size_t i = 0; i < lanes; ++i) {
          const std::size_t word = i * sizeof(T) / 8;
          if (before.word[word] != all_ones) ASSERT_EQ(before.word[word], after.word[word]);
          else ASSERT_TRUE(widen(got.lane[i]) != widen(got.lane[i])) << "no NaN any more";
        }
      }
}

/// A result that `Reducer` gives is sent as it is.
TYPED_TEST(Marks, AreNeverInResults) {
  using T = TypeParam;
  constexpr std::size_t lanes = MarkedPack<T>::lanes;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                            ReduceOp::avg, ReduceOp::premul_sum}) {
    const Reducer<T> reducer({.op = op, .ranks = 3, .scale = 1.5});
    for (const Bits<T> pattern : patterns<T>())
      for (const Bits<T> other : {Bits<T>(all_ones), Bits<T>{0}, pattern}) {
        MarkedPack<T> a, b;
        for (std::size_t i = 0; i < lanes; ++i) {
          a.lane[i] = bits_as<T>(pattern);
          b.lane[i] = bits_as<T>(other);
        }
        auto sum = reducer.start(a);
        reducer.add(sum, b);
        const Marked sent =
            marked_result(bits_as<Marked>(reducer.template finish<sizeof(Marked)>(sum)));
        ASSERT_NE(sent.word[0], 0u);
        ASSERT_NE(sent.word[1], 0u);
      }
  }
}

/// An algorithm, and the reference: one whose data has flags.
struct Subject {
  Collective collective;
  const char *name, *reference;
};
constexpr Subject subjects[] = {{Collective::all_reduce, "oneshot_sentinel", "oneshot_ll"},
                                {Collective::all_reduce, "twoshot_sentinel", "oneshot_ll"},
                                {Collective::reduce_scatter, "direct_sentinel", "direct_ll"}};

template <class T>
void compare(Communicator& comm, Arena& arena, const Subject& subject, ReduceOp op,
             std::size_t offset) {
  const std::vector<Bits<T>> codes = patterns<T>();
  const std::size_t ranks = static_cast<unsigned>(comm.size()),
                    all = 2 * codes.size() + 64 / sizeof(T);
  const bool scatters = subject.collective == Collective::reduce_scatter;
  const std::size_t block = scatters ? (all + ranks - 1) / ranks : all,
                    count = scatters ? block * ranks : all;
  const auto result = [&](const std::string& name, std::vector<std::byte>& bits) {
    DeviceArray &send = arena.send, &recv = arena.recv;
    send.place(offset * sizeof(T), count * sizeof(T));
    recv.place(offset * sizeof(T), block * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      // Every code beside zero, beside all ones and, on the second half, beside itself; the last
      // elements are all ones on all ranks.
      const bool mine = static_cast<int>(i % static_cast<unsigned>(comm.size())) == comm.rank();
      Bits<T> code = i < 2 * codes.size() ? codes[i % codes.size()] : Bits<T>(all_ones);
      if (!mine && i < codes.size()) code = i % 2 == 0 ? Bits<T>{0} : Bits<T>(all_ones);
      std::memcpy(send.image() + i * sizeof(T), &code, sizeof(T));
    }
    send.upload({});
    recv.upload({});
    comm.enqueue(
        {.collective = subject.collective, .type = data_type_of<T>, .op = op, .count = block},
        send.device(), recv.device(), {}, {.algorithm = name, .scale = 1.5});
    recv.download({});
    comm.synchronize();
    bits.assign(recv.image(), recv.image() + block * sizeof(T));
  };
  std::vector<std::byte> wanted, got;
  result(subject.reference, wanted);
  result(subject.name, got);
  if (wanted != got)
    report(comm, fmt::format("{}, {} of {}, offset {}: other bits than {}", subject.name,
                             name_of(op), name_of(data_type_of<T>), offset, subject.reference));
  if (!scatters && !same_on_all_ranks(comm, got.data(), got.size()))
    report(comm, fmt::format("{}: ranks have different bits", subject.name));
}

PLAIT_FOR_RANKS(Patterns, testing::Values(2, 3, 8));

TEST_P(Patterns, GiveTheBitsThatOthersGive) {
  run([&](Communicator& comm, Arena& arena) {
    for (const Subject& subject : subjects)
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::avg})
        for (const std::size_t offset : {0u, 1u, 3u}) {
          compare<f16>(comm, arena, subject, op, offset);
          compare<bf16>(comm, arena, subject, op, offset);
          compare<f8e4m3>(comm, arena, subject, op, offset);
          compare<f8e5m2>(comm, arena, subject, op, offset);
          compare<float>(comm, arena, subject, op, offset);
          compare<double>(comm, arena, subject, op, offset);
        }
  });
}

TEST(MarkedAlgorithms, RefuseIntegers) {
  for (const Subject& subject : subjects) {
    const Algorithm& algorithm = *Registry::instance().find(subject.name, subject.collective);
    Topology topology;
    topology.ranks = 2;
    Call call;
    call.collective = subject.collective;
    call.parts = subject.collective == Collective::reduce_scatter ? 2 : 1;
    call.count = 16;
    call.type = DataType::f32;
    EXPECT_TRUE(algorithm.supports(call, topology));
    call.type = DataType::i32;
    EXPECT_NE(algorithm.supports(call, topology).reason().find("integers have no NaN"),
              std::string::npos);
    call.type = DataType::f32;
    topology.peer_access = false;
    EXPECT_FALSE(algorithm.supports(call, topology));
  }
}

}  // namespace
}  // namespace plait::test
