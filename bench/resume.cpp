#include "bench/resume.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "bench/files.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("--resume: {}: {}", in_quotes(path), why));
}

/// Throws if these results can't stand beside those of this run.
void check_machine(const std::string& path, const Json& earlier, const Json& now) {
  for (const char* const fact : {"backend", "devices", "ranks", "nodes", "plait_version",
                                 "nccl_version", "mpi_version", "settings"}) {
    const Json there = earlier.value(fact, Json(nullptr));
    if (there == now.at(fact)) continue;
    refuse(path, fmt::format("it was measured with {} {}, and this run has {}", fact,
                             printable(there.dump()), printable(now.at(fact).dump())));
  }
}

Result with_times(Result result, const Json& json) {
  const auto time_us = json.at("time_us").get<double>();
  if (!(time_us > 0)) throw std::out_of_range("time_us is not above 0");
  result.times = Times({time_us});
  result.calls = json.at("calls").get<int>();
  if (const Json& wrong = json.at("wrong"); !wrong.is_null())
    result.wrong = wrong.get<std::size_t>();
  result.chosen = json.value("chosen", "");
  result.earlier = json.dump();
  return result;
}

}  // namespace

std::string read_earlier(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  if (!std::filesystem::is_regular_file(path)) refuse(path, "it is not a regular file");
  std::ifstream file(path);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.eof() && !file) refuse(path, fmt::format("can't read it: {}", std::strerror(errno)));
  return text.str();
}

std::vector<Result> take_over(const std::string& text, const std::string& path,
                              const Machine& machine, const std::vector<Result>& planned) {
  std::vector<Result> results;
  if (text.empty()) return results;
  std::map<std::string, const Result*> open;
  for (const Result& result : planned) open[key_of(result)] = &result;
  try {
    const Json file = Json::parse(text);
    check_machine(path, file.at("machine"), to_json(machine));
    for (const Json& json : file.at("results")) {
      const std::string key = key_of(json);
      const auto found = open.find(key);
      if (found == open.end())
        refuse(path, fmt::format("this run does not measure {}", printable(key)));
      results.push_back(with_times(*found->second, json));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse(path,
           fmt::format("it is no whole file of plait-bench --json ({})", printable(error.what())));
  }
  return results;
}

}  // namespace plait::bench
