// Whether a file is whole, before the dynamic linker trusts what it says of itself.
#pragma once
#include <string>

#include "core/user_file.hpp"

namespace plait {

/// Why the file must not be given to dlopen: its headers and its dynamic section name parts that
/// the file does not have, as after a copy that was cut short or a disk that was full. The linker
/// maps those parts all the same, and the process ends with SIGBUS when it touches them. Empty:
/// nothing is known against it, also for a file that is no ELF file, which dlopen refuses itself.
/// Damage within code and data can't be seen.
std::string why_damaged(const UserFile& file);

}  // namespace plait
