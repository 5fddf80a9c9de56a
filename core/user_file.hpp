// Files whose names users give, who may name anything: a directory, a FIFO that nobody writes, a
// device.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "core/unique_fd.hpp"

namespace plait {

struct UserFile {
  UniqueFd descriptor;  // invalid: see why_not
  std::size_t bytes = 0;
  std::string why_not;  // "it is a FIFO, not a regular file", "No such file or directory"
};

/// Opens a regular file, with `flags` of open(2), and closed on exec. Anything else is not even
/// opened: to open a FIFO waits for its other end, and to open a device may do something. Never
/// waits and never throws for what the file is.
UserFile open_user_file(const std::string& path, int flags);

/// All of the file. Throws Error(invalid_argument) that begins with `source` if it can't be read or
/// has more than `most` bytes.
std::string read_user_file(const std::string& path, std::size_t most, std::string_view source);

}  // namespace plait
