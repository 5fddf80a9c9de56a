// The loops that add up all ranks' terms on GPUs, with their 16-byte packs, on the host: sums of
// every count have the bits of rank order, or of a tree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "algorithms/all_reduce/stream/kernel.hpp"
#include "algorithms/blocks/loops/buffer_sum.hpp"
#include "algorithms/blocks/loops/slot_sum.hpp"
#include "algorithms/one_hop/direct_push/kernel.hpp"
#include "backends/host/host_words.hpp"
#include "support/terms.hpp"

namespace plait {
namespace {

struct NarrowWords : host::KernelWords {
  using host::KernelWords::KernelWords;
  static constexpr std::size_t pack_bytes = 16;
};
static_assert(Device<NarrowWords>);

constexpr unsigned threads = 3;

/// A buffer per rank, at any alignment, with room for a pack at each end.
template <class T>
class Sums {
 public:
  Sums(int ranks, std::size_t count, std::size_t offset)
      : terms_(ranks), count_(count), offset_(offset), buffers_(static_cast<unsigned>(ranks) + 1) {
    for (auto& buffer : buffers_) buffer.resize((offset + count) * sizeof(T) / 16 + 2);
    for (int rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < count; ++i) at(rank)[i] = terms_.term(rank, i);
  }

  /// `slots`: all terms but the own one are in slots, which begin at packs.
  void check(ReduceOp op, SumOrder order, bool slots) {
    const Reduction reduction{.op = op,
                              .ranks = terms_.ranks(),
                              .scale = test::Terms<T>::scale,
                              .tree = order == SumOrder::tree};
    std::memset(at(terms_.ranks()), 0xa5, count_ * sizeof(T));
    host::Team team(threads);
    const Watch watch{};
    for (unsigned thread = 0; thread < threads; ++thread) {
      NarrowWords words(0, 1, thread, team, watch);
      if (slots) from_slots(words, reduction);
      else from_buffers(words, reduction);
    }
    for (std::size_t i = 0; i < count_; ++i) {
      const T wanted = terms_.in_order(order, op, i, terms_.ranks());
      ASSERT_EQ(std::memcmp(at(terms_.ranks()) + i, &wanted, sizeof wanted), 0)
          << fmt::format("{} of {}, {} ranks, element {} of {}, offset {}{}{}", name_of(op),
                         name_of(data_type_of<T>), terms_.ranks(), i, count_, offset_,
                         order == SumOrder::tree ? ", tree" : "", slots ? ", slots" : "");
    }
  }

 private:
  struct alignas(16) Line {
    std::byte bytes[16];
  };
  using P = Pack<T, 16>;

  T* at(int rank) {
    return reinterpret_cast<T*>(buffers_[static_cast<unsigned>(rank)].data()) + offset_;
  }
  Range packs() const { return {0, (count_ * sizeof(T) + 15) / 16}; }

  void from_buffers(NarrowWords& words, const Reduction& reduction) {
    const auto term = [this](int rank) { return at(rank); };
    const std::size_t whole = offset_ * sizeof(T) % 16 == 0 ? count_ * sizeof(T) / 16 : 0;
    BufferSum<T, NarrowWords, decltype(term)> sum(words, term, terms_.ranks(), count_, whole,
                                                  reduction);
    sum.run(packs(), 1, [this](int) { return at(terms_.ranks()); });
  }
  void from_slots(NarrowWords& words, const Reduction& reduction) {
    const int own = terms_.ranks() / 2;
    const Packs<const T, 16> in(at(own), count_);
    const Packs<T, 16> out(at(terms_.ranks()), count_);
    const auto slot = [this](int rank) { return reinterpret_cast<const P*>(at(rank)); };
    const Reducer<T> reducer(reduction);
    const SlotTerms all{own, terms_.ranks()};
    if (reduction.tree) add_slots<true, true>(words, reducer, in, packs(), out, 0, all, slot);
    else add_slots<true>(words, reducer, in, packs(), out, 0, all, slot);
  }

  test::Terms<T> terms_;
  std::size_t count_, offset_;
  std::vector<std::vector<Line>> buffers_;
};

template <class T>
void check_all() {
  for (int ranks = 1; ranks <= 10; ++ranks)
    for (const std::size_t count : {1u, 7u, 96u, 500u, 1027u})
      for (const std::size_t offset : {0u, 1u}) {
        Sums<T> sums(ranks, count, offset);
        for (const ReduceOp op :
             {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::prod, ReduceOp::max})
          for (const SumOrder order : {SumOrder::ranks, SumOrder::tree})
            for (const bool slots : {false, true}) {
              if (order == SumOrder::tree && ranks > most_in_tree) continue;
              if (slots && offset != 0) continue;  // slots are aligned
              sums.check(op, order, slots);
              if (testing::Test::HasFatalFailure()) return;
            }
      }
}

TEST(Sums, KeepTheirOrder) {
  check_all<float>();
  check_all<double>();
  check_all<bf16>();
  check_all<f16>();
  check_all<f8e5m2>();
}

/// Whether a launch with these arguments runs this case.
template <class Wanted, class... Case>
bool runs(unsigned index, TypeList<Case...>) {
  unsigned i = 0;
  return ((i++ == index && std::is_same_v<Case, Wanted>) || ...);
}

template <class T>
void check_cases() {
  using Push = direct_push::Kernel<T>;
  using Stream = stream::Kernel<T>;
  SCOPED_TRACE(name_of(data_type_of<T>));
  direct_push::Args push{};
  stream::Args all{};
  push.pattern = direct_patterns::reduce_scatter;
  for (const bool tree : {false, true}) {
    push.reduction.tree = all.reduction.tree = tree;
    const bool in_tree = tree && Reducer<T>::has_trees;
    EXPECT_EQ(runs<typename Push::Trees>(Push::case_of(push), typename Push::Cases()), in_tree);
    EXPECT_EQ(runs<typename Push::Sums>(Push::case_of(push), typename Push::Cases()), !in_tree);
    EXPECT_EQ(runs<typename Stream::template Adding<true>>(Stream::case_of(all),
                                                           typename Stream::Cases()),
              in_tree);
  }
  push.pattern = direct_patterns::all_to_all;
  if (is_moved<T>) {
    EXPECT_TRUE(runs<typename Push::Moves>(Push::case_of(push), typename Push::Cases()));
  }
}

TEST(Sums, AreMadeByTheCaseOfTheKernelForTheirOrder) {
  const auto check = []<class... T>(TypeList<T...>) {
    (check_cases<typename Listed<T>::Element>(), ...);
  };
  check(ReducedTypes());
}

}  // namespace
}  // namespace plait
