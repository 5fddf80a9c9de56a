// PLAIT_TUNING: a file of any text, with rules or with times.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "communicator/selection/measured_times.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "target.hpp"

namespace {

bool is_taken(const std::string& text) {
  plait::Topology topology;
  topology.ranks = 4;
  topology.architecture = "sm_90";
  return plait::fuzz::succeeds([&] {
    const plait::TuningFile file{"some.rules", text};
    if (file.has_times()) static_cast<void>(plait::MeasuredTimes(text, file.source()));
    else plait::tuning_rules(file, topology);
  });
}

/// Times that were taken are written and read as the same, every part of them that lacks the end is
/// refused, and they say positive times of all sizes.
void check_times(const std::string& text) {
  const plait::MeasuredTimes times(text, "a file");
  const std::string written = times.text();
  plait::fuzz::require(plait::MeasuredTimes(written, "a file").text() == written,
                       "times are read as they are written", written);
  for (const std::size_t length : {written.size() / 2, written.size() - 2})
    plait::fuzz::require(!is_taken(written.substr(0, length)), "half of a file is refused",
                         written);
  for (const std::size_t bytes : {0u, 1u, 1000u, 1024u, 1u << 31}) {
    const auto time = times.find("ring", {.type = plait::DataType::u8, .count = bytes});
    plait::fuzz::require(!time || (time->microseconds >= 0 && !std::isnan(time->microseconds)),
                         "a time is a number", text);
  }
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
  if (!taken) return 0;
  if (plait::MeasuredTimes::are_in(text)) check_times(std::string(text));
  else
    plait::fuzz::require(is_taken(fmt::format("# a comment [\n{}\n[4 ranks]\n", text)),
                         "comments and empty parts mean nothing", text);
  return 0;
}
