// The sum of an array over two GPUs of one process, without MPI: build-host/bin/two_devices
#include <algorithm>
#include <cstdio>
#include <plait/plait.hpp>
#include <vector>

int main() try {
  // Without two GPUs these are two ranks on the host.
  plait::DeviceGroup gpus = plait::DeviceGroup::first(2);
  std::puts(gpus.describe().c_str());

  const std::size_t count = 1'000'003, bytes = count * sizeof(float);
  std::vector<plait::Buffer<float>> x = gpus.allocate<float>(count);
  std::vector<plait::Stream> streams = gpus.create_streams();

  std::vector<float> values[2] = {std::vector<float>(count, 1), std::vector<float>(count, 2)};
  for (int i : {0, 1}) gpus.device(i).copy(x[i].data(), values[i].data(), bytes, streams[i]);
  gpus.all_reduce(x, x, plait::ReduceOp::sum, streams);
  for (int i : {0, 1}) gpus.device(i).copy(values[i].data(), x[i].data(), bytes, streams[i]);
  gpus.synchronize(streams);

  bool right = true;
  for (int i : {0, 1}) {
    std::printf("device %d: %g\n", i, values[i][0]);
    right = right &&
            std::all_of(values[i].begin(), values[i].end(), [](float value) { return value == 3; });
  }
  return right ? 0 : 1;
} catch (const plait::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
