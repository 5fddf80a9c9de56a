// Files that the library keeps for later processes of the same user. Losing one costs only the time
// to make it again, so nothing here throws.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace plait {

/// The folder of these files: $XDG_CACHE_HOME/plait, or $HOME/.cache/plait. None if that is not an
/// absolute path, or if the program has rights that its caller lacks.
std::optional<std::string> cache_folder();
/// Why no file can be written there; empty if one can. Makes the folder.
std::string why_no_cache();
/// Replaces the file, which is in the folder. A reader sees all of the old text or all of the new
/// one, also while several processes write. Returns the reason if it fails, else nothing.
std::string write_cached(const std::string& path, std::string_view text);

}  // namespace plait
