// Shared objects with algorithms that are loaded at run time.
#pragma once
#include <string>

namespace plait {

/// Loads what PLAIT_PLUGINS names, once in the life of the process: files, separated by colons.
/// Throws Error(invalid_argument), the same one each time, if one can't be loaded, was compiled for
/// another version, registers nothing, or brings what is there already; also if the program itself
/// has algorithms for another version.
void load_plugins();

/// The file that what is being registered by this thread comes from; empty for the library itself.
const std::string& registering_file();

}  // namespace plait
