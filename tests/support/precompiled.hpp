// What most test programs include and takes long to compile (tests/CMakeLists.txt). A file that
// uses a header includes it all the same: sanitized builds compile without this one.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>
