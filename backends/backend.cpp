#include "backends/backend.hpp"

#include <fmt/format.h>

#include <map>

#include "plait/error.hpp"

namespace plait {
namespace {

std::map<BackendKind, BackendEntry>& entries() {
  static std::map<BackendKind, BackendEntry> map;
  return map;
}

}  // namespace

BackendRegistration::BackendRegistration(const BackendEntry& entry) { entries()[entry.kind] = entry; }

bool is_built(BackendKind kind) { return entries().contains(kind); }

int device_count(BackendKind kind) { return is_built(kind) ? entries()[kind].device_count() : 0; }

std::string why_no_device(BackendKind kind) {
  if (!is_built(kind)) return fmt::format("{} is not built into this library", name_of(kind));
  return entries()[kind].why_no_device();
}

std::unique_ptr<Backend> open_backend(BackendKind kind, int ordinal) {
  const int count = device_count(kind);
  if (count == 0) throw Error(ErrorCode::unsupported, fmt::format("backend {}: {}", name_of(kind), why_no_device(kind)));
  if (kind != BackendKind::host && (ordinal < 0 || ordinal >= count))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("backend {}: device {} does not exist, there are {}", name_of(kind), ordinal, count));
  return entries()[kind].open(ordinal);
}

}  // namespace plait
