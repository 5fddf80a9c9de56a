#include "transport/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace plait::transport {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // its bits in reverse

/// A linear map of remainders: what becomes of each bit.
using Map = std::array<std::uint32_t, 32>;

constexpr std::uint32_t applied(const Map& map, std::uint32_t remainder) {
  std::uint32_t sum = 0;
  for (std::size_t bit = 0; bit < map.size(); ++bit)
    if ((remainder >> bit & 1) != 0) sum ^= map[bit];
  return sum;
}
/// The remainder of what is followed by 2^doublings zero bits.
constexpr Map behind_zeros(int doublings) {
  Map map{polynomial};
  for (std::size_t bit = 1; bit < map.size(); ++bit) map[bit] = std::uint32_t{1} << (bit - 1);
  for (; doublings > 0; --doublings) {
    const Map half = map;
    for (std::uint32_t& column : map) column = applied(half, column);
  }
  return map;
}

std::uint32_t by_table(std::uint32_t crc, const std::byte* at, std::size_t size) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> all{};
    const Map byte = behind_zeros(3);
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = applied(byte, i);
    return all;
  }();
  for (const std::byte* const end = at + size; at != end; ++at)
    crc = table[(crc ^ static_cast<std::uint32_t>(*at)) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)

#if defined(__x86_64__)
#define PLAIT_CRC __attribute__((target("sse4.2")))
PLAIT_CRC std::uint32_t of_word(std::uint32_t crc, std::uint64_t word) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}
bool has_instruction() noexcept {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#else
#define PLAIT_CRC
std::uint32_t of_word(std::uint32_t crc, std::uint64_t word) { return __crc32cd(crc, word); }
bool has_instruction() noexcept { return true; }
#endif

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

constexpr int doublings = 13;
constexpr std::size_t stretch = (std::size_t{1} << doublings) / 8;

/// The remainder of what is followed by a stretch of zeros. By tables, one for each byte of it.
std::uint32_t behind_stretch(std::uint32_t crc) {
  static constexpr auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 4> all{};
    const Map map = behind_zeros(doublings);
    for (std::uint32_t byte = 0; byte < all.size(); ++byte)
      for (std::uint32_t i = 0; i < 256; ++i) all[byte][i] = applied(map, i << 8 * byte);
    return all;
  }();
  std::uint32_t sum = 0;
  for (std::uint32_t byte = 0; byte < tables.size(); ++byte)
    sum ^= tables[byte][crc >> 8 * byte & 0xff];
  return sum;
}

/// The instruction has a latency of three, so three stretches are read at once.
PLAIT_CRC std::uint32_t by_instruction(std::uint32_t crc, const std::byte* at, std::size_t size) {
  for (; size >= 3 * stretch; at += 3 * stretch, size -= 3 * stretch) {
    std::uint32_t second = 0, third = 0;
    for (std::size_t i = 0; i < stretch; i += sizeof(std::uint64_t)) {
      crc = of_word(crc, word_at(at + i));
      second = of_word(second, word_at(at + stretch + i));
      third = of_word(third, word_at(at + 2 * stretch + i));
    }
    crc = behind_stretch(behind_stretch(crc) ^ second) ^ third;
  }
  for (; size >= sizeof(std::uint64_t); at += sizeof(std::uint64_t), size -= sizeof(std::uint64_t))
    crc = of_word(crc, word_at(at));
  return by_table(crc, at, size);
}
#undef PLAIT_CRC

#else

bool has_instruction() noexcept { return false; }
std::uint32_t by_instruction(std::uint32_t crc, const std::byte*, std::size_t) { return crc; }

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data) noexcept {
  return ~(has_instruction() ? by_instruction(~0u, data.data(), data.size())
                             : by_table(~0u, data.data(), data.size()));
}

}  // namespace plait::transport
