// The network plug-ins of the tests (test_plugin/).
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <climits>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plait::test {

/// The file libnccl-net-NAME.so of this build: in lib/, beside the programs' bin/.
inline std::string test_plugin(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / ("libnccl-net-" + name + ".so");
}

/// That plug-in for the tests whose newest table has this version, or any if it is 0.
inline std::string plugin_of_version(int version) {
  return version == 0 || version == 11 ? "plait-test" : "plait-test-v" + std::to_string(version);
}
inline constexpr int plugin_versions[] = {8, 9, 10, 11, 12};

/// The faults of a plug-in, which is loaded with it. See test_plugin/faults.hpp for their names.
class PluginFaults {
 public:
  explicit PluginFaults(const std::string& name)
      : library_(dlopen(test_plugin(name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ != nullptr)
      exchange_ = reinterpret_cast<int (*)(const char*, int)>(dlsym(library_, "plait_test_plugin"));
    EXPECT_NE(exchange_, nullptr) << name;
  }
  ~PluginFaults() {
    if (library_ != nullptr) dlclose(library_);
  }
  PluginFaults(const PluginFaults&) = delete;
  PluginFaults& operator=(const PluginFaults&) = delete;

  int get(const char* fault) const { return exchange_(fault, INT_MIN); }
  void expect_nothing_is_left() const {
    for (const char* count : {"contexts", "comms", "registrations", "orphans"})
      EXPECT_EQ(get(count), 0) << count;
  }

  /// Has a value for as long as this object lives.
  class Scoped {
   public:
    Scoped(const PluginFaults& faults, const char* fault, int value)
        : faults_(faults), fault_(fault), before_(faults.exchange_(fault, value)) {}
    ~Scoped() { faults_.exchange_(fault_, before_); }
    Scoped(const Scoped&) = delete;
    Scoped& operator=(const Scoped&) = delete;

   private:
    const PluginFaults& faults_;
    const char* fault_;
    int before_;
  };

 private:
  void* library_;
  int (*exchange_)(const char*, int) = nullptr;
};

/// As long as it lives, the plug-in of a version does all that plug-ins may do to whole messages:
/// short writes, requests that are done in another order, calls that start nothing, slow flushes,
/// and some that need none. Version 0: none does. In the end nothing must be left in it.
class RoughPlugin {
 public:
  explicit RoughPlugin(int version) {
    if (version == 0) return;
    faults_.emplace(plugin_of_version(version));
    constexpr std::pair<const char*, int> all[] = {
        {"shorts", 1}, {"shuffles", 1}, {"null_every", 5}, {"flush_tests", 7}, {"null_flushes", 3}};
    for (const auto& [fault, value] : all)
      set_.push_back(std::make_unique<PluginFaults::Scoped>(*faults_, fault, value));
  }
  ~RoughPlugin() {
    if (faults_) faults_->expect_nothing_is_left();
  }

 private:
  std::optional<PluginFaults> faults_;
  std::vector<std::unique_ptr<PluginFaults::Scoped>> set_;
};

}  // namespace plait::test
