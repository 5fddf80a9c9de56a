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

inline constexpr const char* creating_communicator = "creating a communicator";

/// A value that must be equal on all ranks: its name, and this rank's value.
using Compared = std::pair<std::string_view, std::string>;

/// Compares the values that `find` returns, and gathers its `extra`. One exchange, because with
/// more ranks than cores each costs several time slices of the system, and between nodes a
/// message's time; and two more if they differ, because few ranks have room for the texts of all.
/// An error of `find` is one on all ranks. What is sent always has the same size and begins with
/// the first value; so another version of the library finds that, whatever else it compares.
template <std::size_t Count, class Extra, class Find>
std::vector<Extra> require_equal_texts(Bootstrap& bootstrap, Find find) {
  struct Record {
    std::array<std::size_t, Count> hashes;
    Extra extra;
    std::array<std::byte, 128 - Count * sizeof(std::size_t) - sizeof(Extra)> unused;
  };
  std::array<Compared, Count> mine;
  std::vector<Extra> extras;
  {
    const auto all = gather_agreed(bootstrap, creating_communicator, [&] {
      Record record{};
      mine = find(record.extra);
      for (std::size_t i = 0; i < Count; ++i)
        record.hashes[i] = std::hash<std::string_view>{}(mine[i].second);
      return record;
    });
    for (std::size_t i = 0; i < Count; ++i)
      for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank].hashes[i] == all[0].hashes[i]) continue;
        const auto text_of = [&](std::size_t one) {
          return printable(
              words_of(bootstrap, creating_communicator, static_cast<int>(one), mine[i].second));
        };
        const std::string first = text_of(0), other = text_of(rank);
        throw Error(ErrorCode::mismatch,
                    fmt::format("{}: ranks differ in {}: rank {} has {}, rank 0 has {}",
                                creating_communicator, mine[i].first, rank, other, first));
      }
    extras.reserve(all.size());
    for (const Record& record : all) extras.push_back(record.extra);
  }
  return extras;
}

}  // namespace plait
