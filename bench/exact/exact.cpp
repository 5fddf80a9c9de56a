#include "bench/exact/exact.hpp"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "bench/exact/kernel.hpp"
#include "plait/error.hpp"

namespace plait::exact {
namespace {

/// Device memory for one check: one counter per thread.
class Counters {
 public:
  Counters(Backend& backend, std::size_t count)
      : backend_(backend),
        data_(static_cast<std::uint32_t*>(backend.allocate(count * sizeof(std::uint32_t)))) {}
  ~Counters() { backend_.deallocate(data_); }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  std::uint32_t* data() const { return data_; }

 private:
  Backend& backend_;
  std::uint32_t* data_;
};

/// Enough threads to fill a GPU (4 blocks of 256 threads per multiprocessor); one on the host.
LaunchShape shape_for(const Backend& backend) {
  const DeviceInfo& info = backend.info();
  return info.backend == BackendKind::host ? LaunchShape{1, 1}
                                           : LaunchShape{4 * info.facts.units, 256};
}

void launch(Backend& backend, NativeStream stream, const Case& data, Mode mode, void* pointer,
            std::size_t count, std::uint32_t* wrong) {
  const KernelHandle kernel = backend.find_kernel("exact", data.type);
  if (!kernel)
    throw Error(ErrorCode::unsupported,
                fmt::format("exact: no kernel for {} on this target", name_of(data.type)));
  const Args args{.data = pointer,
                  .count = count,
                  .begin = data.first,
                  .wrong = wrong,
                  .scale = data.scale,
                  .seed = data.seed,
                  .rank = data.rank,
                  .ranks = data.ranks,
                  .terms = data.terms == 0 ? data.ranks : data.terms,
                  .elements = elements_of(data.type),
                  .op = data.op,
                  .mode = mode};
  static_assert(sizeof(args) <= max_kernel_args);
  backend.launch(kernel, shape_for(backend), &args, sizeof(args), Watch{}, stream);
}

std::size_t check(Backend& backend, NativeStream stream, const Case& data, Mode mode,
                  const void* pointer, std::size_t count) {
  const LaunchShape shape = shape_for(backend);
  std::vector<std::uint32_t> wrong(static_cast<std::size_t>(shape.blocks) * shape.threads);
  // An allocation may wait for the device, and a collective on the device for a peer. So no
  // collective may be running.
  backend.synchronize(stream);
  const Counters counters(backend, wrong.size());
  launch(backend, stream, data, mode, const_cast<void*>(pointer), count, counters.data());
  backend.copy(wrong.data(), counters.data(), wrong.size() * sizeof(std::uint32_t), stream);
  backend.synchronize(stream);
  return std::accumulate(wrong.begin(), wrong.end(), std::size_t{0});
}

}  // namespace

void fill(Backend& backend, NativeStream stream, const Case& data, void* pointer,
          std::size_t count) {
  launch(backend, stream, data, Mode::fill, pointer, count, nullptr);
}

std::size_t count_wrong(Backend& backend, NativeStream stream, const Case& data,
                        const void* pointer, std::size_t count) {
  return check(backend, stream, data, Mode::check_result, pointer, count);
}

std::size_t count_changed(Backend& backend, NativeStream stream, const Case& data,
                          const void* pointer, std::size_t count) {
  return check(backend, stream, data, Mode::check_input, pointer, count);
}

}  // namespace plait::exact
