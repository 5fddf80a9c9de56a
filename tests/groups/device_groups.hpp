// The group that tests of device groups start from.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "groups/device_group_call.hpp"
#include "plait/device_group.hpp"
#include "support/errors.hpp"

namespace plait::test {

inline DeviceGroupOptions options() { return {.backend = target(), .timeout = patience}; }

/// A group, its memory and a stream on each device.
struct Gpus {
  explicit Gpus(int devices, const DeviceGroupOptions& how = options())
      : group(DeviceGroup::first(devices, how)) {}

  Statistics statistics(int rank = 0) const { return group.device(rank).statistics(); }

  DeviceGroup group;
  GroupArena arena{group};
  std::vector<Stream> streams = group.create_streams();
};

inline GroupCase sum_of(std::size_t count, std::uint64_t seed = 1) {
  return {.call = {.collective = Collective::all_reduce,
                   .type = DataType::i32,
                   .op = ReduceOp::sum,
                   .count = count},
          .seed = seed};
}

using DeviceGroups = ForRanks;

/// One device agrees with itself, and waits for no other.
using SeveralDevices = DeviceGroups;

/// An error of that kind, in one sentence.
inline void expect_refused(ErrorCode code, const testing::Matcher<std::string>& message,
                           const std::function<void()>& call) {
  const auto error = error_of(call);
  expect_error(error, code, message);
  EXPECT_THAT(std::string(error ? error->what() : ""), testing::Not(testing::HasSubstr("\n")))
      << "more than a sentence";
}

}  // namespace plait::test
