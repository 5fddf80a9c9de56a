// Tells whether a shared object is whole, before the dynamic linker trusts its headers.
#pragma once
#include <string>

#include "core/user_file.hpp"

namespace plait {

/// Returns why the file must not be given to dlopen: its headers or its dynamic section name parts
/// that the file does not have, for example after a copy that was cut short or on a full disk. The
/// linker maps those parts all the same, and the process ends with SIGBUS when it touches them.
/// Empty if nothing is known against the file. That includes a file that is not ELF, because dlopen
/// refuses it itself. Damage inside code and data can't be seen.
std::string why_damaged(const UserFile& file);

}  // namespace plait
