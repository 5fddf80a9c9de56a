// Device memory as the drivers of other devices reach it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/unique_fd.hpp"

namespace plait {

struct DmaBuf {
  UniqueFd descriptor;
  std::uint64_t offset = 0;  // of the memory in the buffer
};

}  // namespace plait
