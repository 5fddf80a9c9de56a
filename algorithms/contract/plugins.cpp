#include "algorithms/contract/plugins.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/registration.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/shared_object.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "core/user_file.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr const char* variable = "PLAIT_PLUGINS";

/// The outcome of a plug-in's registrations while it is being loaded.
struct Loading {
  std::string failure;    // the first one
  bool is_known = false;  // something of it is registered, so it must stay loaded
};

thread_local Loading* loading = nullptr;
thread_local std::string file_of_registration;

/// The first failure of a registration before `main`, when no `Loading` can take it.
struct Early {
  std::mutex mutex;
  std::string failure;
  static Early& instance() {
    static Early early;
    return early;
  }
};

/// The file that holds the code at `address`.
std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname
                                                                  : "an unknown file";
}

void note_failure(const std::string& file, const std::string& why) {
  if (loading != nullptr) {
    if (loading->failure.empty()) loading->failure = why;
    return;
  }
  const std::lock_guard lock(Early::instance().mutex);
  if (Early::instance().failure.empty())
    Early::instance().failure = fmt::format("{}: {}", file, why);
}

[[noreturn]] void refuse(const std::string& file, std::string_view why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {}: {}", variable, printable(file), why));
}

/// Whether any algorithm comes from this loaded object.
bool has_algorithms(void* object) {
  link_map* entry = nullptr;  // its name is the one that `file_of` gives
  return dlinfo(object, RTLD_DI_LINKMAP, &entry) == 0 &&
         Registry::instance().has_from(entry->l_name);
}

/// The files that dlopen may find for a name without a slash. Without the folders of its cache,
/// because a package manager takes care of their files.
std::vector<std::string> searched(const std::string& name) {
  std::vector<std::string> files;
  void* const own =
      dlopen(file_of(reinterpret_cast<const void*>(&load_plugins)).c_str(), RTLD_NOW | RTLD_NOLOAD);
  Dl_serinfo size{};
  if (own == nullptr) return files;
  if (dlinfo(own, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* const folders = new (memory.data()) Dl_serinfo(size);
    if (dlinfo(own, RTLD_DI_SERINFO, folders) == 0)
      for (const Dl_serpath* folder = folders->dls_serpath;
           folder != folders->dls_serpath + folders->dls_cnt; ++folder)
        files.push_back(fmt::format("{}/{}", folder->dls_name, name));
  }
  dlclose(own);
  return files;
}

/// Comes before dlopen, which would wait for the writer of a FIFO, and trusts the sizes that a
/// damaged file gives.
void check_file(const std::string& file) {
  const bool is_path = file.find('/') != std::string::npos;
  for (const std::string& path : is_path ? std::vector{file} : searched(file)) {
    const UserFile opened = open_user_file(path, O_RDONLY);
    if (!opened.descriptor.valid() && !is_path) continue;
    const std::string why = opened.descriptor.valid() ? why_damaged(opened) : opened.why_not;
    if (!why.empty()) refuse(file, fmt::format("it can't be loaded: {}", why));
    return;
  }
}

void load(const std::string& file) {
  const StandardFdsTaken taken;
  check_file(file);
  if (void* const there = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    const bool is_plugin = has_algorithms(there);  // named twice, or linked with the program
    dlclose(there);
    if (!is_plugin)
      refuse(file, "it registers no algorithm: it is a library that the process has anyway");
    return;
  }
  const std::size_t before = Registry::instance().size();
  Loading now;
  loading = &now;
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  loading = nullptr;
  if (handle == nullptr) {
    const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): POSIX has one per thread
    std::string_view reason = why != nullptr ? why : "no reason is given";
    if (reason.starts_with(file + ": ")) reason.remove_prefix(file.size() + 2);
    refuse(file, fmt::format("it can't be loaded: {}", printable(reason)));
  }
  if (!now.is_known) dlclose(handle);
  if (!now.failure.empty()) refuse(file, now.failure);
  if (Registry::instance().size() == before) refuse(file, "it registers no algorithm");
  log::info("{} has been loaded", file);
}

std::vector<std::string> named_files() {
  std::vector<std::string> files;
  const auto value = environment(variable);
  if (!value) return files;
  for (const std::string_view file : split(*value, ':')) {
    if (file.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}={}: a file without a name", variable, in_quotes(*value)));
    files.emplace_back(file);
  }
  return files;
}

std::string early_failure() {
  const std::lock_guard lock(Early::instance().mutex);
  return Early::instance().failure;
}

std::optional<Error> load_all() {
  // This comes first: if a file is linked with the program and named as well, this failure says why
  // it has no algorithms.
  if (const std::string failure = early_failure(); !failure.empty())
    return Error(ErrorCode::invalid_argument, failure);
  try {
    for (const std::string& file : named_files()) load(file);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

void load_plugins() {
  static const std::optional<Error> failure = load_all();
  if (failure) throw Error(*failure);
}

bool is_part_of_program() {
  Dl_info info{};
  link_map* entry = nullptr;  // the program's has no name
  return dladdr1(reinterpret_cast<const void*>(&load_plugins), &info,
                 reinterpret_cast<void**>(&entry), RTLD_DL_LINKMAP) == 0 ||
         entry == nullptr || entry->l_name == nullptr || *entry->l_name == '\0';
}

const std::string& registering_file() { return file_of_registration; }

}  // namespace plait

void plait_register(const char* version, void (*add)()) {
  using namespace plait;
  const std::string file = file_of(reinterpret_cast<const void*>(add));
  static const std::string own = file_of(reinterpret_cast<const void*>(&load_plugins));
  file_of_registration = file == own ? std::string() : file;
  if (std::strcmp(version, PLAIT_VERSION) != 0) {
    note_failure(file, fmt::format("it is made for Plait {}, and this is Plait {}: compile it anew",
                                   version, PLAIT_VERSION));
  } else {
    if (loading != nullptr) loading->is_known = true;
    try {
      add();
    } catch (const std::exception& error) {  // must not reach the program's start or the loader
      note_failure(file, error.what());
    }
  }
  file_of_registration.clear();
}
