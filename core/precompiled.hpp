// Headers that most files of the library include. The compiler reads them once (CMakeLists.txt),
// because that takes longer than a file's own code. A file that uses a header includes it all the
// same: sanitized builds compile without this one.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>
