// The page that shows the results, for people: see bench/report/page.html.
#pragma once
#include <string>

namespace plait::bench {

/// The mark in the template for the results.
inline constexpr const char* report_mark = "{{runs}}";

/// The page without the results. Empty if the build had no Chart.js.
std::string report_template();

}  // namespace plait::bench
