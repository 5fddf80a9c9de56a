// Sets of flags with a name, for --preset. The parser and --help read this table. docs/measuring.md
// shows it, and a test compares the two.
#pragma once
#include <array>
#include <string_view>

namespace plait::bench {

struct Preset {
  std::string_view name;
  std::string_view flags;  // flags with their values, separated by spaces
  std::string_view purpose;
};

inline constexpr std::array<Preset, 3> presets = {{
    {"quick",
     "-C all -d f32 -b 1K -e 1M -f 32 -n 20 -w 2 --repeats 7 --memory symmetric --in-place 0 "
     "--algorithms default",
     "what a call of each collective takes, in seconds"},
    {"standard",
     "-C all -d f32,bf16 -b 1K -f 4 -w 5 --repeats 7 --memory both --in-place 0 --algorithms all",
     "every algorithm at every second power of two"},
    {"extensive",
     "-C all -d f32,f16,bf16 -b 256 -f 2 -w 5 --repeats 15 --memory both --in-place both "
     "--algorithms all",
     "every algorithm at every power of two, in all places"},
}};

}  // namespace plait::bench
