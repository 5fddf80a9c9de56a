// What the commands that read JSON share.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "algorithms/contract/algorithm.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::info {

/// A number of the link model, by its name.
struct Fact {
  std::string_view name;
  double DeviceFacts::*field;
  bool bandwidth;
};
inline constexpr std::array link_facts{
    Fact{"launch_us", &DeviceFacts::launch_us, false},
    Fact{"hop_us", &DeviceFacts::hop_us, false},
    Fact{"signal_us", &DeviceFacts::signal_us, false},
    Fact{"copy_us", &DeviceFacts::copy_us, false},
    Fact{"link_bandwidth", &DeviceFacts::link_bandwidth, true},
    Fact{"push_bandwidth", &DeviceFacts::push_bandwidth, true},
    Fact{"packet_bandwidth", &DeviceFacts::packet_bandwidth, true},
    Fact{"copy_bandwidth", &DeviceFacts::copy_bandwidth, true}};

/// Returns body(document). Throws Error if the file can't be read or is not as the body expects;
/// `otherwise` says what it is then.
template <class Body>
std::string with_json_file(const std::string& file, std::string_view otherwise, Body body) {
  std::ifstream stream(file);
  if (!stream)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("can't read {}: {}", in_quotes(file), std::strerror(errno)));
  try {
    return body(nlohmann::ordered_json::parse(stream));
  } catch (const nlohmann::ordered_json::exception& error) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is {}: {}", in_quotes(file), otherwise, error.what()));
  }
}

}  // namespace plait::info
