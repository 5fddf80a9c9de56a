#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/plugins.hpp"
#include "plait/error.hpp"

namespace plait {

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(std::unique_ptr<Algorithm> algorithm) {
  if (known(algorithm->name(), algorithm->collective()) != nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an algorithm named {} is registered already for {}", algorithm->name(),
                            name_of(algorithm->collective())));
  const auto key = [](const Algorithm& a) { return std::pair(a.name(), a.collective()); };
  const auto position =
      std::find_if(algorithms_.begin(), algorithms_.end(),
                   [&](const auto& other) { return key(*algorithm) < key(*other); });
  files_[algorithm.get()] = registering_file();
  algorithms_.insert(position, std::move(algorithm));
}

std::span<const std::unique_ptr<Algorithm>> Registry::all() const {
  load_plugins();
  return algorithms_;
}

const Algorithm* Registry::find(std::string_view name, Collective collective) const {
  load_plugins();
  return known(name, collective);
}

bool Registry::is_own(const Algorithm& algorithm) const {
  static const bool can_tell = !is_part_of_program();
  return can_tell && file_of(algorithm).empty();
}

bool Registry::has_from(std::string_view file) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&](const auto& entry) { return entry.second == file; });
}

const Algorithm* Registry::known(std::string_view name, Collective collective) const {
  const auto found =
      std::find_if(algorithms_.begin(), algorithms_.end(), [&](const auto& algorithm) {
        return algorithm->name() == name && algorithm->collective() == collective;
      });
  return found == algorithms_.end() ? nullptr : found->get();
}

void LaunchContext::launch_bytes(StaticName family, KernelUse use, DataType type, LaunchShape shape,
                                 std::span<const std::byte> args, std::size_t unused) {
  Backend& backend = setting_.backend;
  const KernelHandle kernel = setting_.kernels.find(backend, family, use, type);
  if (kernel == nullptr)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: no kernel for {} on {}", family, name_of(type),
                            name_of(backend.info().backend)));
  launch_kernel(kernel, shape, args, unused);
}

void LaunchContext::launch_kernel(KernelHandle kernel, LaunchShape shape,
                                  std::span<const std::byte> args, std::size_t unused) {
  setting_.backend.launch(kernel, shape, args.data(), args.size() - unused, watch_, stream_);
  if (setting_.record != nullptr) setting_.record->add(kernel, shape, args, unused);
  ++setting_.statistics.launches;
  setting_.work.launched(stream_);
}

void Algorithm::enqueue_batch(std::span<const BatchedCall>, LaunchContext&) const {
  throw Error(ErrorCode::unsupported, fmt::format("{} does not take batches", name()));
}

}  // namespace plait
