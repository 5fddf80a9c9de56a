// The handle of a listener of mirror.cpp.
#pragma once
#include <cstdint>

namespace plait::mirror {

struct Handle {
  std::uint64_t magic;
  std::int32_t rank;  // whose it is; the test writes it
};
inline constexpr std::uint64_t magic = 0x726f7272696d706c;

}  // namespace plait::mirror
