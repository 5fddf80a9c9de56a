// The network plug-ins of the tests (test_plugin/).
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <climits>
#include <filesystem>
#include <string>

namespace plait::test {

/// The file libnccl-net-NAME.so of this build: in lib/, beside the programs' bin/.
inline std::string test_plugin(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / ("libnccl-net-" + name + ".so");
}

/// The faults of a plug-in, which is loaded with it. See test_plugin.cpp for their names.
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

}  // namespace plait::test
