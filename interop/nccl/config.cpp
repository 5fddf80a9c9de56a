#include "interop/nccl/config.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/backend.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "interop/nccl/errors.hpp"

namespace plait::nccl {
namespace {

/// A copy in which members that the caller's version lacks keep their values from `defaults`.
template <class S>
S known(const char* call, const char* name, const S& given, const S& defaults, std::size_t least) {
  if (given.magic != magic_of_config || given.size < least)
    refuse(call, fmt::format("the {} was not initialised: it begins with size {} and {:#x}, and "
                             "NCCL's initialiser writes {} or more and {:#x}",
                             name, given.size, given.magic, least, magic_of_config));
  S copy = defaults;
  std::memcpy(static_cast<void*>(&copy), &given, std::min(given.size, sizeof(S)));
  return copy;
}

/// A number that is unset or within bounds.
void check_between(const char* call, const char* name, int value, int least, int most) {
  if (value == unset || (value >= least && value <= most)) return;
  refuse(call, fmt::format("{} is {}: it is {} to {}, or unset", name, value, least, most));
}

unsigned extent(const char* call, const char* name, int value) {
  if (value < 0)
    refuse(call, fmt::format("{} is {}: it is 0 for the default, or more", name, value));
  return static_cast<unsigned>(value);
}

void read_option(const char* call, const ConfigOption& option, CallOptions& options) {
  if (option.key.vendor != vendor) return;  // another vendor's
  switch (option.key.option) {
    case option_algorithm:
      options.algorithm = &needed(call, option.value.text, "the name of an algorithm");
      return;
    case option_blocks:
      options.blocks = extent(call, "the number of blocks", option.value.number);
      return;
    case option_threads:
      options.threads = extent(call, "the number of threads", option.value.number);
      return;
    default:
      refuse(call, fmt::format("{} is none of Plait's options", option.key.option));
  }
}

}  // namespace

CommWishes comm_wishes(const char* call, const Config* config, CommWishes otherwise) {
  if (config == nullptr) return otherwise;
  Config defaults{};
  defaults.blocking = unset;
  defaults.min_ctas = defaults.max_ctas = unset;
  // The first version, 2.14, ended with `blocking`.
  const Config given = known(call, "ncclConfig_t", *config, defaults,
                             offsetof(Config, blocking) + sizeof(Config::blocking));
  check_between(call, "blocking", given.blocking, 0, 1);
  CommWishes wishes = std::move(otherwise);
  if (given.blocking != unset) wishes.blocking = given.blocking == 1;
  // `comm_name` came with 2.27; before, the bytes may be padding.
  constexpr unsigned named_since = 22700;
  if (given.version >= named_since && given.comm_name != nullptr) wishes.name = given.comm_name;
  return wishes;
}

CallOptions call_options(const char* call, const CallConfig* config) {
  CallOptions options;
  if (config == nullptr) return options;
  CallConfig defaults{};
  // The first version, 2.31, ended with the tag.
  const CallConfig given =
      known(call, "ncclCollConfig_t", *config, defaults, offsetof(CallConfig, launch_completion));
  if (given.force_algorithms != 0 && given.force_algorithms != 1)
    refuse(call, fmt::format("forceAlgSelection is {}: it is 0 or 1", given.force_algorithms));
  if (given.launch_completion != nullptr)
    refuse_use(call, "Plait records no event at the launch (launchCompletionEvent)");
  if (given.algorithms != nullptr && *given.algorithms != '\0')
    log::info("{}: algSelection {} has no effect: an option of Plait's names its algorithms", call,
              in_quotes(given.algorithms));
  // A list that was closed to a ring has an end here.
  constexpr int most = 1000;
  int count = 0;
  for (const ConfigOption* option = given.options; option != nullptr; option = option->next) {
    if (++count > most) refuse(call, fmt::format("the list ext has more than {} options", most));
    read_option(call, *option, options);
  }
  return options;
}

BackendKind target() {
  static const BackendKind kind = [] {
    if (const auto wish = environment("PLAIT_BACKEND")) return parse_backend(*wish);
    for (const BackendKind gpu : {BackendKind::cuda, BackendKind::hip})
      if (device_count(gpu) != 0) return gpu;
    return BackendKind::host;
  }();
  return kind;
}

Place place_of_thread() {
  const BackendKind kind = target();
  return {kind, kind == BackendKind::host ? -1 : current_device(kind)};
}

CommunicatorOptions options_at(const Place& place) {
  CommunicatorOptions options;
  options.backend = place.kind;
  options.device = place.device;
  // NCCL's calls wait for ever. Programs have watchdogs of their own, with limits that they choose.
  if (!environment("PLAIT_TIMEOUT")) options.timeout = std::chrono::nanoseconds(0);
  return options;
}

}  // namespace plait::nccl
