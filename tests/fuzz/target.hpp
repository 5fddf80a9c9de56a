// Shared by the fuzz targets. A target takes any bytes, and fails by ending the process: a
// sanitizer's report, an exception that escapes, or `require`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "core/text.hpp"
#include "plait/error.hpp"

/// libFuzzer's, and that of tests/fuzz/replay.cpp.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace plait::fuzz {

inline void require(bool holds, const char* what, std::string_view about = {}) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s: %s\n", what, in_quotes(about).c_str());
  std::abort();
}

/// Every error is one line or several lines of visible text, and short enough to be read.
inline void require_readable(std::string_view sentence) {
  require(!sentence.empty(), "an error has a sentence");
  require(sentence.size() < 20'000, "an error is not long", sentence);
  for (std::size_t begin = 0; begin <= sentence.size();) {
    const std::size_t end = std::min(sentence.find('\n', begin), sentence.size());
    const std::string_view line = sentence.substr(begin, end - begin);
    require(printable(line) == line, "an error can be seen", line);
    begin = end + 1;
  }
}

/// True if it did not throw. Plait's errors are the only ones that it may throw.
inline bool succeeds(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    require_readable(error.what());
    return false;
  }
}

/// Numbers out of bytes; zeros when there are none left.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | next();
    return value;
  }
  template <class T, std::size_t Size>
  const T& one_of(const T (&choices)[Size]) {
    return choices[next() % Size];
  }
  std::string text() {
    std::string result;
    for (std::size_t length = next() % 32; length != 0 && size_ != 0; --length)
      result += static_cast<char>(next());
    return result;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace plait::fuzz
