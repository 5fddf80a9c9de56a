// Shared objects with algorithms, loaded at run time.
#pragma once
#include <string>

namespace plait {

/// Loads the files that PLAIT_PLUGINS names, separated by colons, once per process. Throws
/// Error(invalid_argument), the same one each time, if a file can't be loaded, was compiled for
/// another version, registers nothing, or registers an algorithm that is there already; also if the
/// program itself has algorithms for another version.
void load_plugins();

/// Whether the library is linked into the program. Then nothing tells its own registrations from
/// the program's.
bool is_part_of_program();

/// The file whose registration runs on this thread; empty for the library itself.
const std::string& registering_file();

}  // namespace plait
