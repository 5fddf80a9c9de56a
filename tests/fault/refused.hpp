// Shared by the tests of calls that are refused: all ranks make one, and all get the error.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {

inline constexpr std::size_t count = 100;

class Errors : public ForRanks {
 protected:
  using Call = std::function<void(Communicator&, Arena&)>;

  /// Every rank makes `call`, which must throw `code` on all, write nothing and leave the
  /// communicator in order.
  void expect_refused(ErrorCode code, const testing::Matcher<std::string>& message,
                      const Call& call) const {
    run([&](Communicator& comm, Arena& arena) {
      for (DeviceArray* array :
           {&arena.send, &arena.recv, &arena.symmetric_send, &arena.symmetric_recv}) {
        array->place(0, count * 8);
        array->upload({});
      }
      comm.synchronize();
      expect_error(error_of([&] { call(comm, arena); }), code, message);
      for (DeviceArray* array : {&arena.recv, &arena.symmetric_recv}) {
        array->download({});
        comm.synchronize();
        EXPECT_TRUE(array->untouched());
      }
      EXPECT_FALSE(comm.async_error().has_value());
      check(comm, arena, {.algorithm = {}, .count = 321, .symmetric = true});
      check(comm, arena, {.algorithm = "ring", .count = 321});
    });
  }
};

/// "rank R" for some rank.
inline testing::Matcher<std::string> names_a_rank() { return testing::ContainsRegex("rank [0-9]"); }

}  // namespace plait::test
