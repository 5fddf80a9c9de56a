#include "bench/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "algorithms/contract/collectives.hpp"
#include "bench/report.hpp"
#include "core/text.hpp"
#include "core/unique_fd.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace plait::bench {
namespace {

using Json = nlohmann::ordered_json;

Error cannot_write(ErrorCode code, const std::string& path) {
  return Error(code, fmt::format("can't write {}: {}", in_quotes(path), std::strerror(errno)));
}

/// Refuses a FIFO that no program reads, because opening it would wait for a reader forever. Other
/// pipes are fine.
void check_reader(const std::string& path) {
  if (!std::filesystem::is_fifo(path)) return;
  const UniqueFd fifo(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (fifo.valid()) return;
  if (errno != ENXIO) throw cannot_write(ErrorCode::invalid_argument, path);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("can't write {}: it is a FIFO that no program reads", in_quotes(path)));
}

std::ofstream open(const std::string& path, std::ios::openmode mode) {
  check_reader(path);
  std::ofstream file(path, mode);
  if (!file) throw cannot_write(ErrorCode::invalid_argument, path);
  return file;
}

/// The file itself, without symbolic links, if `path` names a regular file or one that is not there
/// yet. None for pipes and devices.
std::optional<std::filesystem::path> regular_file(const std::string& path) {
  std::error_code failed;
  auto target = std::filesystem::weakly_canonical(path, failed);
  if (failed || (std::filesystem::exists(target) && !std::filesystem::is_regular_file(target)))
    return std::nullopt;
  return target;
}
/// The name of the new file until it is whole.
std::string unfinished(const std::filesystem::path& file) { return file.string() + ".part"; }

void write_through(const std::string& path, const std::string& text) {
  std::ofstream file = open(path, std::ios::out);
  file << text;
  file.close();  // a full disk may show only when the last bytes are written
  if (!file) throw cannot_write(ErrorCode::backend, path);
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const Ceilings& ceilings) {
  Json json;
  json["push_gbs"] = or_null(ceilings.push_gbs);
  json["pull_gbs"] = or_null(ceilings.pull_gbs);
  json["copy_engine_gbs"] = or_null(ceilings.copy_engine_gbs);
  json["flag_us"] = or_null(ceilings.flag_us);
  json["signal_us"] = or_null(ceilings.signal_us);
  json["barrier_us"] = or_null(ceilings.barrier_us);
  json["launch_us"] = or_null(ceilings.launch_us);
  json["query_us"] = or_null(ceilings.query_us);
  return json;
}

/// The fields of a result that say what was measured, in the order of the file.
Json head_of(const Result& result) {
  Json json;
  json["name"] = result.name;
  json["collective"] = name_of(result.call.collective);
  json["type"] = name_of(result.call.type);
  json["op"] =
      facts_of(result.call.collective).reduces ? Json(name_of(result.call.op)) : Json(nullptr);
  json["ranks"] = result.ranks;
  json["bytes"] = result.bytes();
  json["in_place"] = result.in_place;
  json["memory"] = name_of(result.memory);
  json["timing"] = name_of(result.timing);
  return json;
}

Json to_json(const Result& result, const Ceilings& ceilings) {
  if (!result.earlier.empty()) return Json::parse(result.earlier);
  Json json = head_of(result);
  json["time_us"] = result.time_us();
  json["algbw"] = result.moves_data() ? Json(result.algbw()) : Json(nullptr);
  json["busbw"] = result.moves_data() ? Json(result.busbw()) : Json(nullptr);
  json["wrong"] = result.wrong ? Json(*result.wrong) : Json(nullptr);
  if (!result.chosen.empty()) json["chosen"] = result.chosen;
  json["time_us_min"] = result.times.least();
  json["time_us_max"] = result.times.most();
  json["time_us_p50"] = result.times.quantile(0.5);
  json["time_us_p95"] = result.times.quantile(0.95);
  json["repeats"] = result.repeats;
  json["calls"] = result.calls;
  json["samples"] = result.times.size();
  json["samples_of"] = samples_of(result.timing);
  json["time_us_mean"] = result.times.mean();
  json["time_us_stddev"] = result.times.deviation();
  json["time_us_p5"] = result.times.quantile(0.05);
  json["time_us_p99"] = result.times.quantile(0.99);
  json["offset_bytes"] = result.offset;
  json["percent_of_ceiling"] = or_null(result.percent_of(ceilings));
  return json;
}

/// A value as CSV: the JSON text, but strings without quotes (names have no comma) and null as an
/// empty cell.
std::string cell(const Json& value) {
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}

Json to_json(const Machine& machine) {
  Json json;
  json["date"] = machine.date;
  json["hostname"] = machine.hostname;
  json["backend"] = machine.backend;
  json["devices"] = machine.devices;
  json["ranks"] = machine.ranks.size();
  json["nodes"] = machine.nodes;
  json["plait_version"] = machine.version;
  json["nccl_version"] = machine.nccl_version.empty() ? Json(nullptr) : Json(machine.nccl_version);
  json["mpi_version"] = machine.mpi_version;
  json["link_gbs"] = machine.link.gb_per_s > 0 ? Json(machine.link.gb_per_s) : Json(nullptr);
  json["link_measured"] = machine.link.how;
  json["ceilings"] = to_json(machine.ceilings);
  json["ceilings_measured"] = machine.ceilings.how;
  json["processes"] = machine.processes;
  json["command_line"] = machine.command_line;
  json["settings"] = machine.settings;
  return json;
}

/// Says which measurement it is, equally for a result and for its JSON.
std::string key_of(const Json& result) {
  std::vector<std::string> words;
  for (const char* const field : {"name", "collective", "type", "op", "ranks", "bytes",
                                  "offset_bytes", "in_place", "memory", "timing"})
    if (const auto found = result.find(field); found != result.end())
      words.push_back(fmt::format("{} {}", field,
                                  found->is_string() ? found->get<std::string>() : found->dump()));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A run as the page takes it: the names of the fields once, and numbers with six digits, which is
/// a third of the bytes.
Json packed(const Machine& machine, const std::vector<Result>& results) {
  std::vector<Json> whole;
  Json columns = Json::array(), rows = Json::array();
  for (const Result& result : results) {
    whole.push_back(to_json(result, machine.ceilings));
    for (const auto& [key, value] : whole.back().items())
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
  }
  for (const Json& result : whole) {
    Json row = Json::array();
    for (const Json& column : columns) {
      const auto field = result.find(column.get<std::string>());
      const bool there = field != result.end();
      if (there && field->is_number_float())
        row.push_back(std::stod(fmt::format("{:.6g}", field->get<double>())));
      else row.push_back(there ? *field : Json(nullptr));
    }
    rows.push_back(std::move(row));
  }
  return {
      {"machine", to_json(machine)}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

[[noreturn]] void refuse_earlier(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("--resume: {}: {}", in_quotes(path), why));
}

/// Throws if these results can't stand beside those of this run.
void check_machine(const std::string& path, const Json& earlier, const Json& now) {
  for (const char* const fact : {"backend", "devices", "ranks", "nodes", "plait_version",
                                 "nccl_version", "mpi_version", "settings"}) {
    const Json there = earlier.value(fact, Json(nullptr));
    if (there == now.at(fact)) continue;
    refuse_earlier(path, fmt::format("it was measured with {} {}, and this run has {}", fact,
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

std::string key_of(const Result& result) {
  Json json = head_of(result);
  json["offset_bytes"] = result.offset;
  return key_of(json);
}

std::string read_earlier(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  if (!std::filesystem::is_regular_file(path)) refuse_earlier(path, "it is not a regular file");
  std::ifstream file(path);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.eof() && !file)
    refuse_earlier(path, fmt::format("can't read it: {}", std::strerror(errno)));
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
        refuse_earlier(path, fmt::format("this run does not measure {}", printable(key)));
      results.push_back(with_times(*found->second, json));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_earlier(path, fmt::format("it is no whole file of plait-bench --json ({})",
                                     printable(error.what())));
  }
  return results;
}

void write_text(const std::string& path, const std::string& text) {
  const auto file = regular_file(path);
  if (!file) return write_through(path, text);
  const std::string fresh = unfinished(*file);
  try {
    write_through(fresh, text);
    // The bytes first, then the name: otherwise a crash of the machine may leave an empty file.
    if (const UniqueFd written(::open(fresh.c_str(), O_RDONLY | O_CLOEXEC));
        !written.valid() || ::fsync(written.get()) != 0 ||
        std::rename(fresh.c_str(), file->c_str()) != 0)
      throw cannot_write(ErrorCode::backend, path);
  } catch (const Error&) {
    std::remove(fresh.c_str());
    throw;
  }
}

void write_json(const std::string& path, const Machine& machine,
                const std::vector<Result>& results) {
  // One result per line, so that two files can be compared with `diff`.
  std::vector<std::string> lines;
  for (const Result& result : results) lines.push_back(to_json(result, machine.ceilings).dump());
  write_text(path, fmt::format("{{\"machine\":{},\n\"results\":[\n{}\n]}}\n",
                               to_json(machine).dump(), fmt::join(lines, ",\n")));
}

std::string creations_text(const Bootstrap& world, const std::string& command_line,
                           const std::vector<double>& times) {
  return Json({{"plait_version", PLAIT_VERSION},
               {"ranks", world.size()},
               {"nodes", world.nodes()},
               {"command_line", command_line},
               {"creation_us", times}})
             .dump() +
         "\n";
}

void write_csv(const std::string& path, const Machine& machine,
               const std::vector<Result>& results) {
  std::string text =
      "name,collective,type,op,ranks,bytes,in_place,memory,timing,time_us,algbw,busbw,wrong,chosen,"
      "time_us_min,time_us_max,time_us_p50,"
      "time_us_p95,repeats,calls,samples,samples_of,time_us_mean,time_us_stddev,time_us_p5,"
      "time_us_p99,offset_bytes,percent_of_ceiling\n";
  for (const Result& result : results) {
    Json json = to_json(result, machine.ceilings);
    Json row;  // always has a cell for "chosen"
    for (const auto& [key, value] : json.items()) {
      if (key == "time_us_min" && !json.contains("chosen")) row["chosen"] = "";
      row[key] = key == "op" && value.is_null() ? Json("-") : value;  // as in the printed table
    }
    std::vector<std::string> cells;
    for (const auto& [key, value] : row.items()) cells.push_back(cell(value));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  write_text(path, text);
}

void write_report(const std::string& path, const Machine& machine,
                  const std::vector<Result>& results) {
  std::string runs = Json::array({packed(machine, results)}).dump();
  // No text in the data can end its element.
  for (std::size_t at = runs.find('<'); at != std::string::npos; at = runs.find('<', at))
    runs.replace(at, 1, "\\u003c");
  std::string page = report_template();
  page.replace(page.find(report_mark), std::strlen(report_mark), runs);
  write_text(path, page);
}

void check_writable(const std::string& path) {
  if (path.empty()) return;
  open(path, std::ios::app);
  const auto file = regular_file(path);
  if (!file) return;
  open(unfinished(*file), std::ios::app);
  std::remove(unfinished(*file).c_str());
}

}  // namespace plait::bench
