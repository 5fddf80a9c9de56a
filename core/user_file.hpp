// Files that users name. The name may be that of anything: a directory, a FIFO without a writer, a
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

/// Opens a regular file with `flags` of open(2); exec closes it. Does not open anything else,
/// because opening a FIFO waits for its other end and opening a device may have effects. Never
/// waits, and never throws because of the kind of file.
UserFile open_user_file(const std::string& path, int flags);

/// The whole content. Throws Error(invalid_argument), which begins with `source`, if the file can't
/// be read or has more than `most` bytes.
std::string read_user_file(const std::string& path, std::size_t most, std::string_view source);

}  // namespace plait
