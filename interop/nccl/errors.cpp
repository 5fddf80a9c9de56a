#include "interop/nccl/errors.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "plait/version.hpp"

namespace plait::nccl {
namespace {

thread_local std::string sentence_of_thread, text_for_caller;
thread_local bool thread_has_failed = false;

struct OfProcess {
  std::mutex mutex;
  std::string sentence;

  static OfProcess& instance() {
    // Never destroyed, because exit handlers may ask.
    static auto* const own = new OfProcess;
    return *own;
  }
};

/// NCCL_DEBUG asks for errors, so they are logged where they happen, too.
std::atomic<bool> logs_errors = false;

}  // namespace

Result fail(Result result, std::string_view sentence) noexcept {
  try {
    sentence_of_thread = sentence;
    thread_has_failed = true;
    {
      OfProcess& process = OfProcess::instance();
      const std::scoped_lock lock(process.mutex);
      process.sentence = sentence;
    }
    if (logs_errors) log::warn("{}", sentence);
  } catch (...) {  // without memory there is a result, and an older sentence
  }
  return result;
}

Result fail(const Error& error) noexcept { return fail(result_of(error.code()), error.what()); }

std::string last_sentence() {
  if (thread_has_failed) return sentence_of_thread;
  OfProcess& process = OfProcess::instance();
  const std::scoped_lock lock(process.mutex);
  return process.sentence;
}

const char* kept(std::string text) noexcept {
  text_for_caller = std::move(text);
  return text_for_caller.c_str();
}

/// NCCL's own meanings. A wait that a lost, silent or aborting rank ended is ncclRemoteError, also
/// after a deadline: ncclTimeout is newer than the version that this library has.
Result result_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return Result::invalid_argument;
    case ErrorCode::unsupported:
    case ErrorCode::mismatch:
      return Result::invalid_usage;
    case ErrorCode::no_peer_access:
    case ErrorCode::out_of_memory:
      return Result::system_error;
    case ErrorCode::timeout:
    case ErrorCode::aborted:
    case ErrorCode::rank_lost:
    case ErrorCode::bootstrap:
      return Result::remote_error;
    case ErrorCode::backend:
      return Result::unhandled_cuda_error;
  }
  return Result::internal_error;
}

void refuse(const char* call, std::string_view why) {
  throw WrongArgument(ErrorCode::invalid_argument, fmt::format("{}: {}", call, why));
}
void refuse_use(const char* call, std::string_view why) {
  throw WrongArgument(ErrorCode::unsupported, fmt::format("{}: {}", call, why));
}

DataType data_type(const char* call, TypeNumber type) {
  using enum DataType;
  constexpr std::array types = {i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3, f8e5m2};
  static_assert(types.size() == type_count && types[float16] == f16 && types[bfloat16] == bf16);
  if (type < 0 || type >= type_count)
    refuse(call, fmt::format("{} is no data type: they are 0 to {}", type, type_count - 1));
  return types[static_cast<std::size_t>(type)];
}

void read_debug_level() {
  const auto level = environment("NCCL_DEBUG");
  logs_errors = level && *level != "VERSION" && *level != "NONE";
  // A level of Plait's own takes precedence.
  if ((level == "INFO" || level == "TRACE") && !environment("PLAIT_LOG"))
    log::raise(log::Level::info);
}

void greet() {
  [[maybe_unused]] static const bool once = [] {
    read_debug_level();
    const std::string_view who =
        "Plait " PLAIT_VERSION " answers NCCL's calls, as NCCL 2.28.9 (docs/nccl.md)";
    if (environment("NCCL_DEBUG") == "VERSION") log::write(log::Level::info, who);
    else log::info("{}", who);
    for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"})
      if (const auto value = environment(name))
        log::info("{}={} has no effect: PLAIT_ALGO names algorithms of Plait", name, *value);
    return true;
  }();
}

}  // namespace plait::nccl
