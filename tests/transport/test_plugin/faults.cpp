#include "faults.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

namespace plait::test_plugin {

std::map<std::string_view, Fault*>& Fault::all() {
  static std::map<std::string_view, Fault*> known;
  return known;
}

Faults faults;

std::uint64_t draw() {
  static std::atomic<std::uint64_t> number = 0;
  std::uint64_t h = ++number * 0x9e3779b97f4a7c15;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  return h ^ h >> 31;
}

namespace {

/// The functions of the CUDA driver that move bytes, while kernels run and streams are captured.
class Cuda {
 public:
  Cuda() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          library != nullptr ? ::dlsym(library, name) : nullptr);
      if (function == nullptr) std::abort();
    };
    find(exchange_mode_, "cuThreadExchangeStreamCaptureMode");
    find(create_, "cuStreamCreate");
    find(current_, "cuCtxGetCurrent");
    find(synchronize_, "cuStreamSynchronize");
    find(copy_, "cuMemcpyAsync");
  }
  bool copy(void* to, const void* from, std::size_t bytes) {
    int relaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
    exchange_mode_(&relaxed);
    thread_local std::map<void*, void*> streams;  // of the contexts
    void* context = nullptr;
    current_(&context);
    void*& stream = streams[context];
    constexpr unsigned non_blocking = 1;
    const bool copied = (stream != nullptr || create_(&stream, non_blocking) == 0) &&
                        copy_(reinterpret_cast<std::uintptr_t>(to),
                              reinterpret_cast<std::uintptr_t>(from), bytes, stream) == 0 &&
                        synchronize_(stream) == 0;
    exchange_mode_(&relaxed);
    return copied;
  }

 private:
  int (*exchange_mode_)(int*);
  int (*create_)(void**, unsigned);
  int (*current_)(void**);
  int (*synchronize_)(void*);
  int (*copy_)(std::uintptr_t, std::uintptr_t, std::size_t, void*);
};

/// PLAIT_TEST_PLUGIN="pointers=3,cuda=1" sets faults in programs that don't know them.
[[maybe_unused]] const bool from_environment = [] {
  const char* const given = std::getenv("PLAIT_TEST_PLUGIN");
  std::string_view rest = given != nullptr ? given : "";
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const std::size_t middle = one.find('=');
    *Fault::all().at(one.substr(0, middle)) = std::stoi(std::string(one.substr(middle + 1)));
  }
  return true;
}();

}  // namespace

bool copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return true;
  if (faults.cuda != 0) {
    static Cuda cuda;
    return cuda.copy(to, from, bytes);
  }
  std::memcpy(to, from, bytes);
  return true;
}

}  // namespace plait::test_plugin

/// Sets a fault, or reads it: returns the value before. `value` INT_MIN only reads.
extern "C" int plait_test_plugin(const char* name, int value) {
  auto& fault = *plait::test_plugin::Fault::all().at(name);
  return value == INT_MIN ? fault.load() : fault.exchange(value);
}
