// PLAIT_TUNING: a file of any text.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "communicator/selection/tuning_file.hpp"
#include "target.hpp"

namespace {

bool is_taken(const std::string& text) {
  plait::Topology topology;
  topology.ranks = 4;
  topology.architecture = "sm_90";
  return plait::fuzz::succeeds([&] { plait::tuning_rules({"some.rules", text}, topology); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool taken = is_taken(std::string(text));
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  std::string windows(mark);
  for (const char c : text) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  plait::fuzz::require(is_taken(windows) == taken, "lines may end as on Windows", text);
  if (taken)
    plait::fuzz::require(is_taken(fmt::format("# a comment [\n{}\n[4 ranks]\n", text)),
                         "comments and empty parts mean nothing", text);
  return 0;
}
