// A build without Chart.js.
#include "bench/report.hpp"

namespace plait::bench {

std::string report_template() { return {}; }

}  // namespace plait::bench
