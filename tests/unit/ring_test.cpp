// The real primitives of all-reduce's ring on the host, each alone, between words that record every
// access, and the schedule for 1 to 16 ranks, simulated with what these primitives do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/all_reduce/ring/primitives.hpp"
#include "backends/host/host_words.hpp"
#include "support/data.hpp"
#include "unit/channel_memory.hpp"

namespace plait {
namespace {

/// The words of one thread on the host, which note every access in order.
class RecordingWords : public host::KernelWords {
 public:
  enum class Kind { load, store, wait, signal };
  struct Access {
    Kind kind;
    const void* where;
    std::size_t bytes;
    std::uint32_t value;  // waited for, or signalled
  };

  using host::KernelWords::KernelWords;

  template <class T, std::size_t Bytes>
  Pack<T, Bytes> load(const Pack<T, Bytes>* p) {
    accesses.push_back({Kind::load, p, Bytes, 0});
    return *p;
  }
  template <class T, std::size_t Bytes>
  void store(Pack<T, Bytes>* p, const Pack<T, Bytes>& value) {
    accesses.push_back({Kind::store, p, Bytes, 0});
    *p = value;
  }
  bool wait(const std::uint32_t* word, std::uint32_t at_least, Waiting) {
    accesses.push_back({Kind::wait, word, sizeof *word, at_least});
    return word != never;
  }
  void signal(std::uint32_t* word, std::uint32_t value) {
    accesses.push_back({Kind::signal, word, sizeof *word, value});
    *word = value;
  }

  std::vector<Access> accesses;
  const std::uint32_t* never = nullptr;  // a word for which every wait fails
};
static_assert(Device<RecordingWords>);

using Ring = ring::Primitives<int, RecordingWords>;

/// A primitive: it takes a chunk from the previous rank, adds this rank's input (or begins with
/// it), stores the chunk into this rank's output, sends it to the next rank.
struct Primitive {
  const char* name;
  bool (Ring::*run)(int chunk);
  bool receives, adds, stores, sends;
  const char* accesses;  // see OnePrimitive::accesses
};
void PrintTo(const Primitive& primitive, std::ostream* out) { *out << primitive.name; }
/// A wait for a chunk comes before the one for a free slot. All waits come before all other
/// accesses, and all signals after them.
constexpr Primitive all_primitives[] = {
    {"send", &Ring::send, false, true, false, true, "fisp"},
    {"recv_reduce_send", &Ring::recv_reduce_send, true, true, false, true, "aficspu"},
    {"recv_reduce_copy_send", &Ring::recv_reduce_copy_send, true, true, true, true, "aficsopu"},
    {"recv_copy_send", &Ring::recv_copy_send, true, false, true, true, "afcsopu"},
    {"recv", &Ring::recv, true, false, true, false, "acou"},
    {"copy", &Ring::copy, false, true, true, false, "io"}};  // for a ring of one

/// Rank 1 of a ring of three (or of one), with a message of one round.
class OnePrimitive {
 public:
  using Kind = RecordingWords::Kind;
  static constexpr int rank = 1;
  static constexpr unsigned block = 2, way = 0;
  static constexpr std::size_t chunk_count = ChannelMemory::slot_bytes / sizeof(int);

  OnePrimitive(int ranks, bool in_place, std::size_t missing)
      : ranks_(ranks),
        count_(chunk_count * static_cast<unsigned>(ranks) - missing),
        in_place_(in_place),
        memory_(3),
        channels_(memory_.of(rank)),
        place_(RingPlace::of({}, ranks == 1 ? 0 : rank, ranks)) {
    for (std::size_t i = 0; i < count_; ++i) {
      input_[i] = own(i);
      output_[i] = in_place ? own(i) : -1;
    }
    if (ranks == 1) return;
    auto* slot = BlockChannels(channels_, block).incoming<std::byte>(way, place_.before, 0);
    for (std::size_t i = 0; i < chunk_count; ++i) {
      const int x = incoming(i);
      std::memcpy(const_cast<std::byte*>(slot) + i * sizeof x, &x, sizeof x);
    }
  }

  /// Runs it, and checks everything that it has done.
  void check(const Primitive& primitive, int chunk) {
    const std::vector<std::byte> before = memory_.bytes();
    ASSERT_TRUE(run(primitive, chunk));

    const Range range = chunk_range(chunk);
    const std::size_t first = range.begin / sizeof(int), last = range.end / sizeof(int);
    const auto result = [&](std::size_t i) {
      const int in = primitive.receives ? incoming(i - first) : 0;
      return static_cast<int>(static_cast<unsigned>(in) +
                              static_cast<unsigned>(primitive.adds ? own(i) : 0));
    };
    for (std::size_t i = 0; i < count_; ++i) {
      const bool stored = primitive.stores && i >= first && i < last;
      ASSERT_EQ(target()[i], stored ? result(i) : in_place_ ? own(i) : -1) << "output " << i;
      if (!in_place_) {
        ASSERT_EQ(input_[i], own(i)) << "input " << i;
      }
    }
    std::vector<std::byte> after = before;
    if (primitive.sends)
      for (std::size_t i = first; i < last; ++i) {
        const int x = result(i);
        std::memcpy(after.data() + offset_of(out_slot()) + (i - first) * sizeof x, &x, sizeof x);
      }
    // Lanes beyond the end of a message travel as zeros or as what a slot held: not looked at.
    std::vector<std::byte> found = memory_.bytes();
    if (primitive.sends && last - first < chunk_count)
      for (std::vector<std::byte>* bytes : {&after, &found})
        std::fill_n(
            bytes->begin() + static_cast<std::ptrdiff_t>(offset_of(out_slot()) + range.size()),
            ChannelMemory::slot_bytes - range.size(), std::byte{});
    ASSERT_TRUE(found == after) << "slots";
  }

  /// The order of a primitive's accesses, one letter for each run of equal ones.
  ///   a  waits for the previous rank's chunk    f  waits for a free slot of the next rank
  ///   c  loads the chunk                        i  loads the input
  ///   s  stores into the next rank's slot       o  stores into the output
  ///   p  publishes                              u  says that the chunk is used
  std::string accesses() const {
    std::string letters;
    for (const auto& access : words_.accesses) {
      const char letter = letter_of(access);
      if (letters.empty() || letters.back() != letter) letters += letter;
    }
    return letters;
  }
  bool run(const Primitive& primitive, int chunk) {
    ChunkMover<int, RecordingWords> mover(words_, input(), target(), count_,
                                          {.op = ReduceOp::sum, .ranks = ranks_, .scale = 1});
    Ring ring(words_, mover, place_, channels_);
    ring.set_chunks(chunks());
    return (ring.*primitive.run)(chunk);
  }
  /// Makes all waits for a free slot fail, or those for a chunk.
  void fail_wait(bool for_free_slot) {
    const BlockChannels channels(channels_, block);
    words_.never = for_free_slot ? channels.may_send(way, place_.after, 0).word
                                 : channels.has_arrived(way, place_.before, 0).word;
  }

 private:
  static int own(std::size_t i) { return test::element<int>(1, rank, i, ReduceOp::sum); }
  static int incoming(std::size_t i) { return test::element<int>(2, 0, i, ReduceOp::sum); }
  const int* input() const { return in_place_ ? output_ : input_; }
  int* target() { return output_; }
  const int* target() const { return output_; }
  ring::RoundChunks chunks() const {
    return ring::RoundChunks::of(0, count_ * sizeof(int), ChannelMemory::slot_bytes, ranks_,
                                 RecordingWords::pack_bytes);
  }
  Range chunk_range(int chunk) const { return chunks().at(chunk); }

  const std::byte* in_slot() const {
    return BlockChannels(channels_, block).incoming<std::byte>(way, place_.before, 0);
  }
  const std::byte* out_slot() const {
    return BlockChannels(channels_, block).outgoing<std::byte>(way, place_.after, 0);
  }
  std::size_t offset_of(const std::byte* slot) const { return memory_.offset_of(slot); }

  char letter_of(const RecordingWords::Access& access) const {
    const auto lies_in = [&](const void* base, std::size_t bytes) {
      const auto* p = static_cast<const std::byte*>(access.where);
      const auto* begin = static_cast<const std::byte*>(base);
      return p >= begin && p + access.bytes <= begin + bytes;
    };
    const bool loads = access.kind == Kind::load, stores = access.kind == Kind::store;
    if (loads && lies_in(input(), sizeof input_)) return 'i';
    if (stores && lies_in(target(), sizeof output_)) return 'o';
    if (ranks_ == 1) return '?';
    if (loads && lies_in(in_slot(), ChannelMemory::slot_bytes)) return 'c';
    if (stores && lies_in(out_slot(), ChannelMemory::slot_bytes)) return 's';
    const BlockChannels channels(channels_, block);
    const auto is = [&](Kind kind, const std::uint32_t* word, std::uint32_t value) {
      return access.kind == kind && access.where == word && access.value == value;
    };
    const auto arrived = channels.has_arrived(way, place_.before, 0);
    const auto free = channels.may_send(way, place_.after, 0);
    const auto published = channels.publish(way, place_.after, 0, 64);
    const auto used = channels.consume(way, place_.before, 0);
    if (is(Kind::wait, arrived.word, arrived.at_least)) return 'a';
    if (is(Kind::wait, free.word, free.at_least)) return 'f';
    if (is(Kind::signal, published.word, published.value)) return 'p';
    if (is(Kind::signal, used.word, used.value)) return 'u';
    return '?';
  }

  int ranks_;
  std::size_t count_;
  bool in_place_;
  alignas(64) int input_[3 * chunk_count] = {};
  alignas(64) int output_[3 * chunk_count] = {};
  ChannelMemory memory_;
  Channels channels_;
  RingPlace place_;
  host::Team team_{1};
  Watch watch_{};
  RecordingWords words_{block, block + 1, 0, team_, watch_};
};

/// The letters of one pack, repeated for each pack of a chunk.
std::string for_packs_of_a_chunk(const std::string& letters) {
  const auto begin = letters.find_first_not_of("af"), end = letters.find_last_not_of("pu") + 1;
  std::string all = letters.substr(0, begin);
  for (std::size_t i = 0; i < ChannelMemory::slot_bytes / RecordingWords::pack_bytes; ++i)
    all += letters.substr(begin, end - begin);
  return all + letters.substr(end);
}

class Primitives : public testing::TestWithParam<std::tuple<Primitive, bool>> {
 protected:
  static const Primitive& primitive() { return std::get<0>(GetParam()); }
  static bool in_place() { return std::get<1>(GetParam()); }
  static int ranks() { return primitive().sends || primitive().receives ? 3 : 1; }
};
std::string name_of_case(const testing::TestParamInfo<std::tuple<Primitive, bool>>& test) {
  const auto& [primitive, in_place] = test.param;
  return fmt::format("{}_{}", primitive.name, in_place ? "in_place" : "out_of_place");
}
INSTANTIATE_TEST_SUITE_P(All, Primitives,
                         testing::Combine(testing::ValuesIn(all_primitives), testing::Bool()),
                         name_of_case);

TEST_P(Primitives, TouchWhatTheyNeedAndNothingElse) {
  for (int chunk = 0; chunk < ranks(); ++chunk) {
    OnePrimitive alone(ranks(), in_place(), 0);
    alone.check(primitive(), chunk);
    EXPECT_EQ(alone.accesses(), for_packs_of_a_chunk(primitive().accesses));
  }
}

/// The last chunk ends in the middle of a pack.
TEST_P(Primitives, MoveAPartOfAPack) {
  for (const std::size_t missing : {1u, 13u, 17u})
    for (int chunk = 0; chunk < ranks(); ++chunk) {
      OnePrimitive alone(ranks(), in_place(), missing);
      alone.check(primitive(), chunk);
    }
}

TEST_P(Primitives, TouchNothingAfterAWaitThatFails) {
  for (const bool for_free_slot : {false, true}) {
    if (for_free_slot ? !primitive().sends : !primitive().receives) continue;
    OnePrimitive alone(ranks(), in_place(), 0);
    alone.fail_wait(for_free_slot);
    EXPECT_FALSE(alone.run(primitive(), 0));
    EXPECT_EQ(alone.accesses(), primitive().receives && for_free_slot ? "af"
                                : primitive().receives                ? "a"
                                                                      : "f");
  }
}

/// A chunk as it travels, with the ranks whose terms it holds.
using Terms = std::multiset<int>;
struct Message {
  int chunk;
  Terms terms;
};

/// One rank of a ring. Steps are recorded first, and then run as soon as their input is there.
class RingRank {
 public:
  RingRank(int rank, const RingPlace& place) : rank_(rank), place_(place) {
    ring::all_reduce(*this, place_);
  }

  // The primitives, as the schedule sees them.
  bool send(int chunk) { return record(&Ring::send, chunk); }
  bool recv_reduce_send(int chunk) { return record(&Ring::recv_reduce_send, chunk); }
  bool recv_reduce_copy_send(int chunk) { return record(&Ring::recv_reduce_copy_send, chunk); }
  bool recv_copy_send(int chunk) { return record(&Ring::recv_copy_send, chunk); }
  bool recv(int chunk) { return record(&Ring::recv, chunk); }
  bool copy(int chunk) { return record(&Ring::copy, chunk); }

  /// Runs the next step if a message is there for it.
  bool advance(std::deque<Message>& in, std::deque<Message>& out) {
    if (steps_.empty()) return false;
    const auto [kind, chunk] = steps_.front();
    Terms terms;
    if (kind->receives) {
      if (in.empty()) return false;
      EXPECT_EQ(in.front().chunk, chunk) << "rank " << rank_;
      terms = in.front().terms;
      in.pop_front();
    }
    if (kind->adds) terms.insert(rank_);
    if (kind->stores) output_[chunk] = terms;
    if (kind->sends) {
      out.push_back({chunk, terms});
      ++sent_;
    }
    steps_.pop_front();
    return true;
  }
  bool finished() const { return steps_.empty(); }
  const RingPlace& place() const { return place_; }
  const std::map<int, Terms>& output() const { return output_; }
  int sent() const { return sent_; }

 private:
  struct Step {
    const Primitive* kind;
    int chunk;
  };
  bool record(bool (Ring::*run)(int), int chunk) {
    const auto* const kind = std::find_if(std::begin(all_primitives), std::end(all_primitives),
                                          [run](const Primitive& one) { return one.run == run; });
    steps_.push_back({kind, chunk});
    return true;
  }

  int rank_;
  RingPlace place_;
  std::deque<Step> steps_;
  std::map<int, Terms> output_;
  int sent_ = 0;
};

using Size = std::tuple<int, bool, bool>;  // ranks; reverse; in an order of its own
class Rings : public testing::TestWithParam<Size> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Rings,
                         testing::Combine(testing::Range(1, 17), testing::Bool(), testing::Bool()));

TEST_P(Rings, EveryChunkHoldsEveryTermOnceOnEveryRank) {
  const int n = std::get<0>(GetParam());
  const bool reverse = std::get<1>(GetParam());
  std::vector<int> ring;
  for (int p = 0; std::get<2>(GetParam()) && p < n; ++p)
    ring.push_back((n / 2 + p * 17) % n);  // 17 is prime to n
  const auto place_of = [&](int rank) {
    const RingPlace place = RingPlace::of(ring, rank, n);
    return reverse ? place.reversed() : place;
  };
  std::map<int, RingRank> ranks;
  std::map<int, std::deque<Message>> inboxes;
  Terms everybody;
  for (int rank = 0; rank < n; ++rank) {
    ranks.try_emplace(rank, rank, place_of(rank));
    everybody.insert(rank);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [rank, each] : ranks)
      while (each.advance(inboxes[rank], inboxes[each.place().after])) moved = true;
  }
  for (const auto& [rank, each] : ranks) {
    EXPECT_TRUE(each.finished() && inboxes[rank].empty()) << "rank " << rank;
    EXPECT_EQ(each.sent(), 2 * (n - 1));
    EXPECT_EQ(each.output().size(), ranks.size());
    for (const auto& [chunk, terms] : each.output()) EXPECT_EQ(terms, everybody) << chunk;
    if (ring.empty()) {
      EXPECT_EQ(each.place().after, (rank + (reverse ? n - 1 : 1)) % n);
    }
    EXPECT_EQ(place_of(each.place().after).before, rank);
  }
}

}  // namespace
}  // namespace plait
