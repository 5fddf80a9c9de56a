// The names of algorithms and kernels.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string_view>

namespace plait {

/// Text that lives as long as the process: a literal, or `lasting` text. So a launch finds its
/// kernel by the address of the name and compares no characters. An array that is not constant is
/// refused, because it may be a buffer that changes.
class StaticName : public std::string_view {
 public:
  // Not consteval, because clang 14 crashes on a function that returns such an object.
  template <std::size_t size>  // NOLINTNEXTLINE(google-explicit-constructor): made to convert
  constexpr StaticName(const char (&literal)[size]) : std::string_view(literal, size - 1) {}
  template <std::size_t size>
  StaticName(char (&buffer)[size]) = delete;
  /// The caller promises that `text` lives as long as the process.
  static constexpr StaticName lasting(std::string_view text) { return StaticName(text); }

 private:
  explicit constexpr StaticName(std::string_view text) : std::string_view(text) {}
};

}  // namespace plait
