// CRC-32C (Castagnoli), as in iSCSI: RFC 3720, appendix B.4.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace plait::transport {

/// By the processor's instruction where it has one, else by a table, which is far slower.
std::uint32_t crc32c(std::span<const std::byte> data) noexcept;

}  // namespace plait::transport
