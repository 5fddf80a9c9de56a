// The sum of an array over two GPUs of one process, without MPI: build-host/bin/two_devices
// An argument is the number of lanes, blocks of the launch that each move a stripe: two_devices 4
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <plait/plait.hpp>
#include <vector>

int main(int argc, char** argv) try {
  const unsigned lanes = argc > 1 ? unsigned(std::atoi(argv[1])) : 0;  // 0: the library's choice
  // Without two GPUs these are two ranks on the host.
  plait::DeviceGroup gpus = plait::DeviceGroup::first(2);
  std::puts(gpus.describe().c_str());

  const std::size_t count = 1'000'003, bytes = count * sizeof(float);
  std::vector<plait::Buffer<float>> x = gpus.allocate<float>(count);
  std::vector<plait::Stream> streams = gpus.create_streams();

  // Whole numbers, so that both orders of adding them give the same sum.
  const auto element = [](int device, std::size_t i) {
    return float(device + 1) + float(i % 10007);
  };
  std::vector<float> values[2] = {std::vector<float>(count), std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i)
    for (int device : {0, 1}) values[device][i] = element(device, i);
  for (int i : {0, 1}) gpus.device(i).copy(x[i].data(), values[i].data(), bytes, streams[i]);
  gpus.all_reduce(x, x, plait::ReduceOp::sum, streams, {.blocks = lanes});
  for (int i : {0, 1}) gpus.device(i).copy(values[i].data(), x[i].data(), bytes, streams[i]);
  gpus.synchronize(streams);

  for (int device : {0, 1}) std::printf("device %d: %g\n", device, values[device][0]);
  for (std::size_t i = 0; i < count; ++i)
    for (int device : {0, 1})
      if (values[device][i] != element(0, i) + element(1, i)) return 1;
} catch (const plait::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
