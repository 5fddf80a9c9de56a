// Where tests of calibrations keep their times, and communicators that may measure.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "communicator/calibration/calm_machine.hpp"
#include "communicator/calibration/plan.hpp"
#include "plait/plait.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// A folder of its own for the cache.
class CalibrationTest : public testing::Test {
 protected:
  CalibrationTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait-calibration-" + std::to_string(getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())),
        cache_("XDG_CACHE_HOME", folder_.string()) {
    std::filesystem::remove_all(folder_);
  }
  ~CalibrationTest() override { std::filesystem::remove_all(folder_); }

  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    if (std::filesystem::exists(folder_ / "plait"))
      for (const auto& entry : std::filesystem::directory_iterator(folder_ / "plait"))
        all.push_back(entry.path());
    return all;
  }
  static std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path folder_;
  ScopedEnvironment cache_;
};

/// Communicators of the host target that may measure. On a busy machine, in which a call waits for
/// time slices, the first kind of calls takes seconds.
class Calibrating : public CalibrationTest {
 protected:
  Calibrating() {
    measuring_limit_us = 10e6;
    looks_at_machine = false;
  }
  static CommunicatorOptions options() { return test_options({.backend = BackendKind::host}); }
  static std::string explained(const Communicator& comm) {
    return comm.explain({.collective = Collective::all_reduce, .count = 1000});
  }

 private:
  ScopedEnvironment wish_{"PLAIT_CALIBRATE", "1"}, few_bytes_{"PLAIT_SCRATCH_BYTES", "16M"};
};

}  // namespace plait::test
