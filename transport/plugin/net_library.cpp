#include "transport/plugin/net_library.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <string_view>

#include "core/log.hpp"
#include "core/process.hpp"
#include "core/shared_object.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "core/user_file.hpp"
#include "transport/plugin/net_calls.hpp"

namespace plait::transport {
namespace {

using net_interface::Result;

std::string file_of(const std::string& name) {
  const bool is_file = name.find('/') != std::string::npos || name.find(".so") != std::string::npos;
  return is_file ? name : fmt::format("libnccl-net-{}.so", name);
}

[[noreturn]] void refuse(const std::string& file, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("network plug-in {}: {}", file, why));
}

void* load(const std::string& file) {
  if (file.find('/') != std::string::npos) {
    const UserFile opened = open_user_file(file, O_RDONLY);
    const std::string why = opened.descriptor.valid() ? why_damaged(opened) : opened.why_not;
    if (!why.empty()) refuse(file, "it can't be loaded: " + why);
  }
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): POSIX has one per thread
  refuse(file, "it can't be loaded: " + printable(why != nullptr ? why : "no reason is given"));
}

/// The table of this version, or null.
template <int version>
std::shared_ptr<const NetCalls> calls_of(void* library) {
  const void* table = dlsym(library, fmt::format("ncclNetPlugin_v{}", version).c_str());
  if (table == nullptr) return nullptr;
  return std::make_shared<NetCallsOf<version>>(
      *static_cast<const net_interface::Table<version>*>(table));
}

/// The calls of the highest version that the plug-in serves and Plait knows.
template <int version>
std::shared_ptr<const NetCalls> newest_calls(void* library) {
  if (auto calls = calls_of<version>(library)) return calls;
  if constexpr (version > net_interface::oldest) return newest_calls<version - 1>(library);
  return nullptr;
}

std::string_view name_of(Result result) {
  constexpr std::array<std::string_view, 8> names{
      "success",          "CUDA error",    "system error", "internal error",
      "invalid argument", "invalid usage", "remote error", "in progress"};
  const auto at = static_cast<std::size_t>(result);
  return at < names.size() ? names[at] : "unknown error";
}

std::string title_of(const NetCalls& calls, const std::string& file) {
  return fmt::format("network plug-in {} ({}, version {})",
                     calls.name() != nullptr ? calls.name() : "?", file, calls.version());
}

/// The plug-ins of this process. Up to version 10 they are initialised once.
class Libraries {
 public:
  std::shared_ptr<const NetCalls> get(const std::string& file) {
    const std::scoped_lock lock(mutex_);
    if (const auto known = calls_.find(file); known != calls_.end()) return known->second;
    auto calls = newest_calls<net_interface::newest>(load(file));
    if (!calls)
      refuse(file, fmt::format("it has none of the tables ncclNetPlugin_v{} to ncclNetPlugin_v{}",
                               net_interface::oldest, net_interface::newest));
    if (calls->version() < 11) {
      const Result result = calls->init(nullptr, 0);
      if (result != Result::success)
        throw Error(ErrorCode::bootstrap, fmt::format("{}: init: {} ({})", title_of(*calls, file),
                                                      name_of(result), static_cast<int>(result)));
    }
    log::info("{} has been loaded", title_of(*calls, file));
    calls_.emplace(file, calls);
    return calls;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const NetCalls>> calls_;
};
OfProcess<Libraries> libraries;

}  // namespace

void log_of_plugin(net_interface::LogLevel level, unsigned long, const char* file, int line,
                   const char* format, ...) noexcept {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  try {
    using log::Level;
    // Plug-ins tell of each connection as info, which is too much for that level here.
    const Level wanted = level == net_interface::log_abort     ? Level::error
                         : level == net_interface::log_warn    ? Level::warn
                         : level == net_interface::log_version ? Level::info
                                                               : Level::debug;
    log::at(wanted, "network plug-in: {} ({}:{})", printable(text.data()),
            file != nullptr ? file : "?", line);
  } catch (...) {  // the plug-in may be C
  }
}

NetPlugin::NetPlugin(const std::string& name) {
  const StandardFdsTaken taken;
  const std::string file = file_of(name);
  calls_ = libraries.get().get(file);
  title_ = title_of(*calls_, file);
  static std::atomic<std::uint64_t> number = 0;
  if (calls_->version() >= 11) check(calls_->init(&context_, ++number), "init");
}

NetPlugin::~NetPlugin() {
  if (origin_.is_here() && calls_->version() >= 11) calls_->finalize(context_);
}

void NetPlugin::check(Result result, const char* call, bool connection) const {
  if (result == Result::success) return;
  const bool lost =
      connection && (result == Result::remote_error || result == Result::system_error);
  throw Error(
      lost ? ErrorCode::rank_lost : ErrorCode::bootstrap,
      fmt::format("{}: {}: {} ({})", title_, call, name_of(result), static_cast<int>(result)));
}

}  // namespace plait::transport
