#include "core/selection.hpp"

namespace plait {

std::string_view builtin_rules(const Topology&) { return {}; }

}  // namespace plait
