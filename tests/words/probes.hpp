// One small kernel for each word of backends/device/device.hpp, to read its instructions one by
// one. Never run. PLAIT_ISA in PLAIT_ISA_HEADER has the accesses: those of a target, or some that
// are wrong on purpose (tests/hip/wrong_words.hpp), which the check must find.
#include PLAIT_ISA_HEADER

#include "backends/device/pack.hpp"
#include "backends/gpu/gpu_words.hpp"

using Isa = PLAIT_ISA;
using plait::Packet;
using plait::PacketData;
using plait::Waiting;
using plait::Watch;
using Words = plait::gpu::KernelWords<Isa>;
using Pack = plait::Pack<float, Words::pack_bytes>;

#define PLAIT_PROBE extern "C" __global__ void __launch_bounds__(512)

/// The block writes data, and one thread tells a peer.
PLAIT_PROBE probe_signal(const Watch watch, Pack* data, Pack value, std::uint32_t* flag,
                         std::uint32_t epoch) {
  Words words(watch);
  words.store(data + words.thread(), value);
  words.sync();
  if (words.thread() == 0) words.signal(flag, epoch);
}

/// Each thread waits, and then reads its own pack, and a word that is the same for all threads:
/// that one tempts the compiler to use a scalar load, whose cache no acquire empties.
PLAIT_PROBE probe_wait(const Watch watch, const std::uint32_t* flag, std::uint32_t epoch,
                       const Pack* data, const float* word, Pack* result) {
  Words words(watch);
  if (!words.wait(flag, epoch, {1, epoch})) return;
  Pack pack = words.load(data + words.thread());
  pack.lane[0] += *word;
  words.store(result + words.thread(), pack);
}

/// One thread waits and the block votes, as in a kernel.
PLAIT_PROBE probe_all(const Watch watch, const std::uint32_t* flag, std::uint32_t epoch,
                      const Pack* data, Pack* result) {
  Words words(watch);
  words.store(result + words.threads() + words.thread(), Pack{});
  bool arrived = true;
  if (words.thread() == 0) arrived = words.wait(flag, epoch, {1, epoch});
  if (!words.all(arrived)) return;
  words.store(result + words.thread(), words.load(data + words.thread()));
}

PLAIT_PROBE probe_put(const Watch watch, Packet* packets, PacketData data, std::uint32_t epoch) {
  Words words(watch);
  words.put(packets + words.thread(), data, epoch);
}

PLAIT_PROBE probe_get(const Watch watch, const Packet* first, const Packet* second,
                      std::uint32_t epoch, PacketData* result) {
  Words words(watch);
  const Packet* const packets[2] = {first + words.thread(), second + words.thread()};
  const Waiting who[2] = {{1, epoch}, {2, epoch}};
  PacketData data[2];
  if (!words.get(packets, data, 3u, epoch, who)) return;
  result[words.thread()] = {{data[0].word[0] + data[1].word[0], data[0].word[1] + data[1].word[1]}};
}

/// On targets with lines.
template <class W>
PLAIT_WORD void put_line(W& words, plait::Line* line, std::uint32_t epoch) {
  if constexpr (W::line_threads != 0) words.put(line, {}, epoch, threadIdx.y == 0);
}
template <class W>
PLAIT_WORD void get_line(W& words, const plait::Line* line, std::uint32_t epoch,
                         PacketData* result) {
  if constexpr (W::line_threads != 0) {
    const plait::Line* const lines[1] = {line};
    const Waiting who[1] = {{1, epoch}};
    plait::LineShare<16 / W::line_threads> shares[1];
    if (words.get(lines, shares, 1u, epoch, who)) result[words.thread()] = shares[0].word[0];
  }
}
PLAIT_PROBE probe_put_line(const Watch watch, plait::Line* line, std::uint32_t epoch) {
  Words words(watch);
  put_line(words, line, epoch);
}
PLAIT_PROBE probe_get_line(const Watch watch, const plait::Line* line, std::uint32_t epoch,
                           PacketData* result) {
  Words words(watch);
  get_line(words, line, epoch, result);
}

PLAIT_PROBE probe_copy(const Watch watch, const Pack* from, Pack* to, std::size_t count) {
  Words words(watch);
  for (std::size_t i = words.thread(); i < count; i += words.threads())
    words.store(to + i, words.load(from + i));
}

PLAIT_PROBE probe_reduce(const Watch watch, const Pack* first, const Pack* second, Pack* to,
                         std::size_t count, plait::Reduction reduction) {
  Words words(watch);
  const plait::Reducer<float> reducer(reduction);
  for (std::size_t i = words.thread(); i < count; i += words.threads()) {
    auto sum = reducer.start(words.load(first + i));
    reducer.add(sum, words.load(second + i));
    words.store(to + i, reducer.finish<Words::pack_bytes>(sum));
  }
}

/// Copies of the next round are started before those of this one are used.
PLAIT_PROBE probe_stage(const Watch watch, const Pack* from, Pack* to, std::size_t count) {
  Words words(watch);
  Words::Staging<Pack, 2> staging;
  staging.copy_async(0, from + words.thread());
  staging.commit();
  for (std::size_t i = words.thread(); i < count; i += 2 * words.threads()) {
    staging.copy_async(1, from + i + words.threads());
    staging.commit();
    staging.wait_pending<1>();
    words.store(to + i, staging.load(0));
    staging.copy_async(0, from + i + 2 * words.threads());
    staging.commit();
    staging.wait_pending<1>();
    words.store(to + i + words.threads(), staging.load(1));
  }
}

PLAIT_PROBE probe_arrive(const Watch watch, std::uint32_t* word, std::uint32_t* before) {
  Words words(watch);
  before[words.thread()] = words.arrive(word);
}

PLAIT_PROBE probe_put_marked(const Watch watch, plait::Marked* slots, plait::Marked data) {
  Words words(watch);
  words.put(slots + words.thread(), data);
}
PLAIT_PROBE probe_take(const Watch watch, const plait::Marked* slots, std::uint32_t number,
                       plait::Marked* result) {
  Words words(watch);
  const plait::Marked* const from[1] = {slots + words.thread()};
  const Waiting who[1] = {{1, number}};
  plait::Marked data[1];
  if (words.take(from, data, 1u, number, who)) result[words.thread()] = data[0];
}
PLAIT_PROBE probe_empty(const Watch watch, plait::Marked* slots) {
  Words words(watch);
  words.empty(slots + words.thread());
}
PLAIT_PROBE probe_release(const Watch watch, Pack* data, Pack value, plait::Marked* slots) {
  Words words(watch);
  words.store(data + words.thread(), value);
  words.release();
  words.empty(slots + words.thread());
}
PLAIT_PROBE probe_acquire(const Watch watch, const plait::Marked* slots, const Pack* data,
                          Pack* result) {
  Words words(watch);
  words.acquire(slots + words.thread());
  words.store(result + words.thread(), words.load(data + words.thread()));
}
