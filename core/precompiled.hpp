// What most files of the library include and what takes longer to read than their own code
// (CMakeLists.txt). A file that uses a header includes it all the same: sanitized builds compile
// without this one.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>
