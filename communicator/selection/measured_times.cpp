#include "communicator/selection/measured_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "algorithms/contract/algorithm.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr std::string_view first_line = "plait-times 1", first_word = "plait-times",
                           last_line = "end", for_what = "for ";
constexpr unsigned most_shapes = 1000;

constexpr std::array<std::pair<std::string_view, Where>, 3> places_of_memory = {
    {{"in", Where::in_place}, {"out", Where::out_of_place}, {"ordinary", Where::ordinary}}};

std::string_view name_of(Where where) {
  return std::find_if(places_of_memory.begin(), places_of_memory.end(),
                      [&](const auto& place) { return place.second == where; })
      ->first;
}

/// Whether a line of the text can begin with the name of an algorithm.
bool is_plain(std::string_view name) {
  return !name.empty() && name != last_line &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
             "+") == std::string_view::npos;
}

double logarithm(std::size_t bytes) { return std::log(static_cast<double>(bytes)); }

}  // namespace

/// Reads a text, line by line.
class MeasuredTimes::Parser {
 public:
  Parser(MeasuredTimes& into, std::string_view source) : into_(into), source_(source) {}

  void parse(std::string_view text) {
    bool ended = false;
    for (const std::string_view line : lines_of(text)) {
      ++line_;
      text_ = line;
      if (text_.empty()) continue;
      if (ended) refuse("there is more after the end");
      ended = text_ == last_line && seen_ > 1;
      if (!ended) take_line();
    }
    if (!ended)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: the file is cut off: its last line is not \"{}\"", source_, last_line));
  }

 private:
  void take_line() {
    switch (seen_++) {
      case 0:
        if (text_ != first_line) refuse(fmt::format("not \"{}\"", first_line));
        return;
      case 1:
        if (!text_.starts_with(for_what)) refuse("not the machine and the communicator");
        into_.key_ = trim(text_.substr(for_what.size()));
        return;
      default:
        return text_.ends_with(':') ? take_heading() : take_curve();
    }
  }

  void take_heading() {
    const auto said = words(text_.substr(0, text_.size() - 1));
    const auto* const place =
        said.size() != 3 ? places_of_memory.end()
                         : std::find_if(places_of_memory.begin(), places_of_memory.end(),
                                        [&](const auto& known) { return known.first == said[2]; });
    if (place == places_of_memory.end()) refuse("not of the form \"all_reduce f32 in:\"");
    const auto parsed = [&](auto reader, std::string_view word) {
      try {
        return reader(word);
      } catch (const Error& error) {
        refuse(error.what());
      }
    };
    const Collective collective = parsed(parse_collective, said[0]);
    const DataType type = parsed(parse_data_type, said[1]);
    const std::size_t before = into_.sections_.size();
    static_cast<void>(into_.section(collective, type, place->second));
    if (into_.sections_.size() == before) refuse("it is there twice");
  }

  void take_curve() {
    if (into_.sections_.empty()) refuse("not of the form \"all_reduce f32 in:\"");
    Section& section = into_.sections_.back();
    const auto said = words(text_);
    if (said.size() < 2 || !is_plain(said[0])) refuse("an algorithm and its times are expected");
    Curve curve;
    for (const std::string_view word : std::span(said).subspan(1)) {
      const Point point = parse_point(word);
      if (!curve.empty() && curve.back().bytes >= point.bytes)
        refuse(fmt::format("{}: sizes must ascend", in_quotes(word)));
      curve.push_back(point);
    }
    if (!named_.emplace(into_.sections_.size(), said[0]).second) refuse("it is there twice");
    if (Registry::instance().find(said[0], section.collective) != nullptr)
      section.curves.emplace(said[0], std::move(curve));
  }

  Point parse_point(std::string_view word) {
    const auto equals = word.find('='), at = word.find('@');
    const auto bytes = parse_bytes(word.substr(0, equals));
    const bool has_time = equals != std::string_view::npos && at > equals;
    const double time =
        has_time ? parse_number<double>(word.substr(equals + 1, at - equals - 1)).value_or(0) : 0;
    const auto shape = at == std::string_view::npos ? std::optional(0u)
                                                    : parse_number<unsigned>(word.substr(at + 1));
    if (!bytes || !(time > 0 && std::isfinite(time)) || !shape || *shape >= most_shapes)
      refuse(fmt::format("{} is not of the form 1K=3.25 or 1K=3.25@2", in_quotes(word)));
    return {*bytes, time, *shape};
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: line {}: in {}: {}", source_, line_, in_quotes(text_), why));
  }

  MeasuredTimes& into_;
  std::string_view source_, text_;
  std::set<std::pair<std::size_t, std::string_view>> named_;  // section, algorithm
  int line_ = 0, seen_ = 0;
};

bool MeasuredTimes::are_in(std::string_view text) {
  for (const std::string_view line : lines_of(text))
    if (!line.empty()) return line.starts_with(first_word);
  return false;
}

MeasuredTimes::MeasuredTimes(std::string_view text, std::string_view source) {
  Parser(*this, source).parse(text);
  set_ranges();
}

MeasuredTimes::MeasuredTimes(std::string key, std::span<const MeasuredCall> calls)
    : key_(std::move(key)) {
  for (const MeasuredCall& measured : calls) {
    if (!is_plain(measured.algorithm)) continue;  // a plug-in's; the text could not name it
    const Call& call = measured.call;
    Curve& curve = section(call.collective, call.type, where_is(call)).curves[measured.algorithm];
    const Point point{call.bytes(), measured.microseconds, measured.shape};
    const auto place = std::find_if(curve.begin(), curve.end(),
                                    [&](const Point& p) { return p.bytes >= point.bytes; });
    if (place == curve.end() || place->bytes != point.bytes) curve.insert(place, point);
    else if (point.microseconds < place->microseconds) *place = point;
  }
  set_ranges();
}

/// Adds the section if there is none.
MeasuredTimes::Section& MeasuredTimes::section(Collective collective, DataType type, Where where) {
  for (Section& section : sections_)
    if (section.collective == collective && section.type == type && section.where == where)
      return section;
  return sections_.emplace_back(
      Section{.collective = collective, .type = type, .where = where, .curves = {}});
}

void MeasuredTimes::set_ranges() {
  std::erase_if(sections_, [](const Section& section) { return section.curves.empty(); });
  for (Section& section : sections_) {
    section.least = std::numeric_limits<std::size_t>::max();
    for (const auto& [name, curve] : section.curves) {
      section.least = std::min(section.least, curve.front().bytes);
      section.most = std::max(section.most, curve.back().bytes);
    }
  }
}

std::string MeasuredTimes::text() const {
  std::string text = fmt::format("{}\n{}{}\n", first_line, for_what, key_);
  for (const Section& section : sections_) {
    text += fmt::format("{} {} {}:\n", plait::name_of(section.collective),
                        plait::name_of(section.type), name_of(section.where));
    for (const auto& [name, curve] : section.curves) {
      text += name;
      for (const Point& point : curve)
        text += fmt::format(" {}={:.4g}{}", format_bytes(point.bytes), point.microseconds,
                            point.shape == 0 ? "" : fmt::format("@{}", point.shape));
      text += '\n';
    }
  }
  return text += fmt::format("{}\n", last_line);
}

const MeasuredTimes::Section* MeasuredTimes::section_of(const Call& call) const {
  const Section* best = nullptr;
  int best_rank = 0;
  for (const Section& section : sections_) {
    if (section.collective != call.collective || section.where != where_is(call)) continue;
    const int rank = section.type == call.type                     ? 3
                     : size_of(section.type) == size_of(call.type) ? 2
                                                                   : 1;
    if (rank <= best_rank) continue;
    best = &section;
    best_rank = rank;
  }
  return best;
}

std::optional<MeasuredTimes::Time> MeasuredTimes::find(std::string_view algorithm,
                                                       const Call& call) const {
  const Section* section = section_of(call);
  if (section == nullptr) return std::nullopt;
  const auto found = section->curves.find(algorithm);
  if (found == section->curves.end()) return std::nullopt;
  const Curve& curve = found->second;
  const std::size_t bytes = std::clamp(call.bytes(), section->least, section->most);
  if (bytes < curve.front().bytes || bytes > curve.back().bytes) return std::nullopt;
  const double growth = call.bytes() > bytes && bytes != 0
                            ? static_cast<double>(call.bytes()) / static_cast<double>(bytes)
                            : 1;
  const bool extended = call.bytes() != bytes;
  const auto high = std::find_if(curve.begin(), curve.end(),
                                 [&](const Point& point) { return point.bytes >= bytes; });
  if (high->bytes == bytes) return Time{growth * high->microseconds, high->shape, extended};
  const auto low = std::prev(high);
  const double from = logarithm(std::max<std::size_t>(low->bytes, 1)),
               fraction = (logarithm(bytes) - from) / (logarithm(high->bytes) - from);
  return Time{low->microseconds * std::pow(high->microseconds / low->microseconds, fraction),
              fraction < 0.5 ? low->shape : high->shape, extended};
}

}  // namespace plait
