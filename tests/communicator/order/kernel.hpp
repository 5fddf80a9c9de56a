// The kernels before and after a call in tests of order: one holds the stream up, one makes the
// call's input, and one looks at its result. All run on the device, so that the host never comes
// between.
#pragma once
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::order {

using Types = TypeList<std::uint32_t>;

enum class Step : std::uint32_t { hold, advance, produce, consume };

struct Args {
  Step step;
  int rank;
  std::uint32_t* gate;   // hold: until this word of host memory is 1
  std::uint32_t* round;  // advance: counts it; the others: whose data
  std::uint32_t* data;   // produce: becomes `times` the round's elements; consume: must be that
  std::size_t count;
  std::uint32_t times;
  std::uint32_t* wrong;  // consume: counts elements that are not, one word a thread
};

PLAIT_DEVICE constexpr std::uint32_t element(std::uint32_t round, std::size_t i) {
  std::uint32_t x = round * 0x9e3779b1u ^ static_cast<std::uint32_t>(i) * 0x85ebca77u;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  return x ^ x >> 13;
}

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const std::uint32_t index = dev.block() * dev.threads() + dev.thread();
    const std::size_t step = std::size_t{dev.blocks()} * dev.threads();
    if (a.step == Step::hold) {
      if (index == 0) dev.wait(a.gate, 1, {a.rank, 0});
    } else if (a.step == Step::advance) {
      if (index == 0) *a.round += 1;
    } else {
      const std::uint32_t round = *a.round;
      for (std::size_t i = index; i < a.count; i += step) {
        if (a.step == Step::produce) a.data[i] = element(round, i) * a.times;
        else if (a.data[i] != element(round, i) * a.times) a.wrong[index] += 1;
      }
    }
  }
};

}  // namespace plait::order
