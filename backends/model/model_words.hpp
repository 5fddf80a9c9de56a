// The words of backends/device/device.hpp on the target that explores: each one tells the explorer
// what it does. A block has as many threads as the launch asks for, which take turns.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "backends/device/device.hpp"
#include "backends/model/explorer.hpp"

namespace plait::model {

/// What a block has besides its threads.
struct BlockMemory {
  alignas(64) std::byte shared[block_memory_bytes];
  alignas(64) std::byte values[std::size_t{64} << 10];
};

class KernelWords {
  template <class M>
  static auto half_of(M* packet, int half) {
    using Half = std::conditional_t<std::is_const_v<M>, const std::uint64_t, std::uint64_t>;
    return reinterpret_cast<Half*>(packet) + half;
  }

 public:
  static constexpr std::size_t pack_bytes = 16;
  static constexpr bool indexed_arguments = true, has_peer_reads = false,
                        threads_as_launched = false;
  static constexpr int line_threads = 1, line_group = 1;

  KernelWords(Explorer& explorer, Thread& thread, BlockMemory& memory)
      : explorer_(explorer), thread_(thread), memory_(memory) {}

  Explorer& explorer() const { return explorer_; }
  Thread& its_thread() const { return thread_; }

  unsigned block() const { return thread_.block; }
  unsigned blocks() const { return thread_.blocks; }
  unsigned thread() const { return thread_.thread; }
  unsigned threads() const { return thread_.threads; }

  // Each word knows the line that calls it.
  void sync(Site at = {__builtin_FILE(), __builtin_LINE()}) {
    explorer_.barrier(thread_, true, at);
  }
  bool all(bool flag, Site at = {__builtin_FILE(), __builtin_LINE()}) {
    return explorer_.barrier(thread_, flag, at);
  }
  std::byte* block_memory() const { return memory_.shared; }
  std::uint32_t arrive(std::uint32_t* word, Site at = {__builtin_FILE(), __builtin_LINE()}) {
    return explorer_.add_one(thread_, word, at);
  }

  /// Which threads add what does not matter here, because nobody looks at the bits of sums of rows.
  template <int Parts, class Of, class Op>
  float reduce(unsigned part_packs, unsigned packs, Of of, Op op, float none) {
    auto* const all = reinterpret_cast<float*>(memory_.shared);
    sync();
    for (unsigned part = 0; part < unsigned{Parts}; ++part)
      for (unsigned place = thread(); place < part_packs; place += threads())
        if (part * part_packs + place < packs) all[part * part_packs + place] = of(part, place);
    sync();
    float result = none;
    for (unsigned i = 0; i < packs; ++i) result = op(result, all[i]);
    return result;
  }
  template <int Parts, int Width>
  class RowValues {
   public:
    explicit RowValues(KernelWords& words)
        : values_(reinterpret_cast<float*>(words.memory_.values)) {}
    float (&at(unsigned, std::size_t column))[Width] {
      return *reinterpret_cast<float(*)[Width]>(values_ + column);
    }

   private:
    float* values_;
  };

  template <class T, std::size_t Bytes>
  Pack<T, Bytes> load(const Pack<T, Bytes>* p,
                      Site at = {__builtin_FILE(), __builtin_LINE()}) const {
    Pack<T, Bytes> value;
    explorer_.plain_load(thread_, &value, p, Bytes, at);
    return value;
  }
  template <class T, std::size_t Bytes>
  void store(Pack<T, Bytes>* p, const Pack<T, Bytes>& value,
             Site at = {__builtin_FILE(), __builtin_LINE()}) const {
    explorer_.plain_store(thread_, p, &value, Bytes, at);
  }
  template <class T>
  T* to_global(T* pointer) const {
    return pointer;
  }
  template <class T>
  T uniform(const T& value) const {
    return value;
  }

  /// The load is checked when the copy begins and when it is awaited, because it may happen at any
  /// time between.
  template <class P, int Count>
  class Staging {
   public:
    void copy_async(int place, const P* from) {
      from_[place] = from;
      look(from);
    }
    void commit() {}
    template <int Pending>
    void wait_pending() {}
    P load(int place) const {
      if (from_[place] == nullptr) return {};
      look(from_[place]);
      return *from_[place];
    }

   private:
    static void look(const P* from) {
      if (from != nullptr) Explorer::plain_load_by_current(from, sizeof(P));
    }
    const P* from_[Count] = {};
  };

  void signal(std::uint32_t* slot, std::uint32_t value,
              Site at = {__builtin_FILE(), __builtin_LINE()}) {
    explorer_.store(thread_, slot, &value, sizeof(value), true, at);
  }
  bool wait(const std::uint32_t* slot, std::uint32_t at_least, Waiting,
            Site at = {__builtin_FILE(), __builtin_LINE()}) {
    return explorer_.wait(thread_, slot, at_least, at);
  }

  void put(Packet* packet, PacketData data, std::uint32_t flag,
           Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (int half = 0; half < 2; ++half) {
      const std::uint64_t word = data.word[half] | std::uint64_t{flag} << 32;
      explorer_.store(thread_, half_of(packet, half), &word, sizeof(word), false, at);
    }
  }
  template <int Max>
  bool get(const Packet* const (&packets)[Max], PacketData (&data)[Max], unsigned wanted,
           std::uint32_t flag, const Waiting (&)[Max],
           Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (int i = 0; i < Max; ++i)
      for (int half = 0; half < 2; ++half) {
        if ((wanted >> i & 1u) == 0) continue;
        std::uint64_t word = 0;
        if (!explorer_.await(
                thread_, half_of(packets[i], half), &word, sizeof(word),
                [=](const Value& value) { return value[0] >> 32 == flag; }, at))
          return false;
        data[i].word[half] = static_cast<std::uint32_t>(word);
      }
    return true;
  }

  void put(Marked* slot, const Marked& data, Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (int i = 0; i < 2; ++i)
      explorer_.store(thread_, &slot->word[i], &data.word[i], sizeof(data.word[i]), false, at);
  }
  template <int Max>
  bool take(const Marked* const (&slots)[Max], Marked (&data)[Max], unsigned wanted, std::uint32_t,
            const Waiting (&)[Max], Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (int i = 0; i < Max; ++i)
      for (int half = 0; half < 2; ++half)
        if ((wanted >> i & 1u) != 0 &&
            !explorer_.await(
                thread_, &slots[i]->word[half], &data[i].word[half], sizeof(data[i].word[half]),
                [](const Value& value) { return value[0] != 0; }, at))
          return false;
    return true;
  }
  void empty(Marked* slot, Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (std::uint64_t& word : slot->word) explorer_.empty(thread_, &word, sizeof(word), at);
  }
  void release(Site at = {__builtin_FILE(), __builtin_LINE()}) {
    explorer_.fence(thread_, false, at);
  }
  void acquire(const Marked* slot, Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (const std::uint64_t& word : slot->word)
      explorer_.acquire(thread_, &word, sizeof(word), at);
  }

  void put(Line* line, const LineShare<16>& share, std::uint32_t flag, bool live,
           Site at = {__builtin_FILE(), __builtin_LINE()}) {
    if (!live) return;
    Line whole;
    std::memcpy(whole.word, share.word, sizeof(whole));
    whole.word[15] = std::uint64_t{flag} << 32;
    explorer_.store(thread_, line, &whole, sizeof(whole), false, at);
  }
  template <int Max>
  bool get(const Line* const (&lines)[Max], LineShare<16> (&shares)[Max], unsigned wanted,
           std::uint32_t flag, const Waiting (&)[Max],
           Site at = {__builtin_FILE(), __builtin_LINE()}) {
    for (int i = 0; i < Max; ++i)
      if ((wanted >> i & 1u) != 0 &&
          !explorer_.await(
              thread_, lines[i], shares[i].word, sizeof(Line),
              [=](const Value& value) { return value[15] >> 32 == flag; }, at))
        return false;
    return true;
  }

 private:
  Explorer& explorer_;
  Thread& thread_;
  BlockMemory& memory_;
};

static_assert(Device<KernelWords>);

}  // namespace plait::model
