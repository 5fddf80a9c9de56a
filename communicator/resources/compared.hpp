// Values that must be equal on all ranks of a communicator.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "core/text.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait {

/// Short text in a form that `all_gather` takes.
using GatheredText = std::array<char, 512>;

inline constexpr const char* creating_communicator = "creating a communicator";

/// A value that must be equal on all ranks: its name, and this rank's value.
using Compared = std::pair<std::string_view, std::string>;

/// Compares the values that `find` returns, and gathers its `extra`. One exchange, because with
/// more ranks than cores each costs several time slices of the system, and between nodes a
/// message's time. An error of `find` is one on all ranks. The first value is the first in what is
/// sent, whose size is always the same; so another version of the library finds it, whatever else
/// it compares.
template <std::size_t Count, class Extra, class Find>
std::vector<Extra> require_equal_texts(Bootstrap& bootstrap, Find find) {
  struct Value {
    GatheredText text;
    std::size_t hash;  // of the whole value, which may not fit in `text`
    bool operator==(const Value&) const = default;
  };
  struct Record {
    std::array<Value, Count> values;
    Extra extra;
    std::array<std::byte, 4000 - Count * sizeof(Value) - sizeof(Extra)> unused;
  };
  std::array<std::string_view, Count> names;
  const auto all = gather_agreed(bootstrap, creating_communicator, [&] {
    Record mine{};
    const std::array<Compared, Count> compared = find(mine.extra);
    for (std::size_t i = 0; i < Count; ++i) {
      names[i] = compared[i].first;
      mine.values[i] = {as_text<GatheredText>(compared[i].second),
                        std::hash<std::string_view>{}(compared[i].second)};
    }
    return mine;
  });
  std::vector<Extra> extras;
  for (std::size_t i = 0; i < Count; ++i)
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank].values[i] != all[0].values[i])
        throw Error(ErrorCode::mismatch,
                    fmt::format("{}: ranks differ in {}: rank {} has {}, rank 0 has {}",
                                creating_communicator, names[i], rank,
                                printable(all[rank].values[i].text.data()),
                                printable(all[0].values[i].text.data())));
  for (const Record& record : all) extras.push_back(record.extra);
  return extras;
}

}  // namespace plait
