#include "communicator/resources/ring.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "bootstrap/agreement.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr std::size_t least_searched = 4, most_searched = 16;  // three have one ring only
constexpr int none = -1;

/// The links of the narrowest pair of neighbours, and of all of them.
using Width = std::pair<int, int>;
Width width_of(const std::vector<int>& order, const LinkMatrix& links) {
  Width width{links[0][1], 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto a = static_cast<unsigned>(order[i]),
               b = static_cast<unsigned>(order[(i + 1) % order.size()]);
    width = {std::min(width.first, links[a][b]), width.second + links[a][b]};
  }
  return width;
}

/// The ring with the most links among those whose neighbours all have `least` links or more. Empty
/// if there is none. Held and Karp's search: for each set of devices besides 0 and each of them, it
/// finds the best path from 0 through the whole set that ends there.
std::vector<int> best_ring(const LinkMatrix& links, int least) {
  const std::size_t n = links.size(), all = (std::size_t{1} << (n - 1)) - 1;
  const auto without = [](std::size_t set, std::size_t device) {
    return set & ~(std::size_t{1} << (device - 1));
  };
  std::vector<int> best((all + 1) * n, none);  // links of the path, by set and last device
  best[0] = 0;                                 // no device besides 0
  const auto longer = [&](std::size_t set, std::size_t last, std::size_t next) {
    const int path = best[set * n + last], step = links[last][next];
    return path == none || step < least ? none : path + step;
  };
  for (std::size_t set = 1; set <= all; ++set)
    for (std::size_t end = 1; end < n; ++end) {
      const std::size_t rest = without(set, end);
      if (rest == set) continue;
      for (std::size_t last = 0; last < n; ++last)
        best[set * n + end] = std::max(best[set * n + end], longer(rest, last, end));
    }
  // From the end back to 0, each time by the greatest of the devices that are equally good.
  std::vector<int> order(n);
  std::size_t set = all, next = 0;
  for (std::size_t place = n - 1; place > 0; --place) {
    std::size_t at = 0;
    int most = none;
    for (std::size_t last = 1; last < n; ++last)
      if (const int path = longer(set, last, next); path != none && path >= most) {
        at = last;
        most = path;
      }
    if (most == none) return {};
    order[place] = static_cast<int>(at);
    next = at;
    set = without(set, at);
  }
  return order;
}

}  // namespace

std::vector<int> ring_order(const LinkMatrix& links) {
  const std::size_t n = links.size();
  std::vector<int> in_order(n);
  std::iota(in_order.begin(), in_order.end(), 0);
  if (n < least_searched || n > most_searched) return in_order;
  LinkMatrix both = links;  // what each of two devices says of the other
  std::set<int, std::greater<>> widths;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      both[a][b] = a == b ? 0 : std::min(links[a][b], links[b][a]);
      if (a != b) widths.insert(both[a][b]);
    }
  if (*widths.rbegin() < 0 || widths.size() == 1) return in_order;
  const Width as_numbered = width_of(in_order, both);
  for (const int least : widths) {
    if (least < as_numbered.first) break;
    const std::vector<int> order = best_ring(both, least);
    if (!order.empty()) return width_of(order, both) > as_numbered ? order : in_order;
  }
  return in_order;
}

std::vector<int> parse_ring(std::string_view text) {
  std::vector<int> order;
  for (const std::string_view number : split(text, ','))
    order.push_back(parse_number<int>(trim(number)).value_or(none));
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int>(i))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("PLAIT_RING={}: not all numbers from 0 to {}, once each and "
                              "separated by commas",
                              in_quotes(text), sorted.size() - 1));
  return order;
}

std::vector<int> find_ring(Bootstrap& bootstrap, const Backend& backend,
                           std::span<const std::string> ids) {
  const bool share = std::set<std::string>(ids.begin(), ids.end()).size() < ids.size();
  if (backend.info().backend == BackendKind::host || share || ids.size() < least_searched ||
      ids.size() > most_searched)
    return {};
  std::array<int, most_searched> row{};
  std::ranges::copy(backend.links_to(ids), row.begin());
  const auto rows =
      on_behalf_of(bootstrap, "creating a communicator", [&] { return bootstrap.all_gather(row); });
  LinkMatrix links;
  for (const auto& each : rows) links.emplace_back(each.begin(), each.begin() + std::ssize(ids));
  std::vector<int> order = ring_order(links);
  if (std::is_sorted(order.begin(), order.end())) return {};
  if (bootstrap.rank() == 0)
    log::info("rings and chains have the order {}, because of the devices' links",
              fmt::join(order, ","));
  return order;
}

}  // namespace plait
