// One small kernel for each word of backends/device/device.hpp, so that probe_rules.py can check a
// word's instructions one by one. Never run. With -DPLAIT_WRONG=name, the same kernels on accesses
// that are wrong on purpose (wrong_words.hpp): the check must find out.
#include <hip/hip_runtime.h>

#include "backends/device/pack.hpp"
#include "backends/gpu/gpu_words.hpp"
#include "backends/hip/gcn.hpp"

#if defined(PLAIT_WRONG)
#include "tests/hip/wrong_words.hpp"
using Isa = plait::wrong::PLAIT_WRONG;
#else
using Isa = plait::hip::Gcn;
#endif

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
