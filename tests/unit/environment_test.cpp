// Values of environment variables: sizes, numbers and times, and the errors of malformed ones.
#include "core/environment.hpp"

#include <gtest/gtest.h>

#include "plait/error.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"

namespace plait {
namespace {

using test::expect_invalid;
using test::ScopedEnvironment;

TEST(Environment, Bytes) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("8MiB"), std::size_t{8} << 20);
  EXPECT_EQ(parse_bytes("2GB"), std::size_t{2} << 30);
  for (const char* wrong :
       {"", "K", "-1", "1.5K", "64KK", "1T", " 1", "18446744073709551616", "99999999999G"})
    EXPECT_FALSE(parse_bytes(wrong).has_value()) << wrong;
  EXPECT_EQ(format_bytes(65536), "64K");
  EXPECT_EQ(format_bytes(65537), "65537");
}

TEST(Environment, MalformedValuesAreErrorsThatNameTheVariable) {
  const ScopedEnvironment variable("PLAIT_TEST_NUMBER", "12x");
  expect_invalid([] { environment_integer("PLAIT_TEST_NUMBER", 0, 0, 100); }, "PLAIT_TEST_NUMBER");
  expect_invalid([] { environment_bytes("PLAIT_TEST_NUMBER", 0); }, "12x");
  expect_invalid([] { environment_seconds("PLAIT_TEST_NUMBER", 0); }, "12x");
  const ScopedEnvironment large("PLAIT_TEST_NUMBER", "101");
  expect_invalid([] { environment_integer("PLAIT_TEST_NUMBER", 0, 0, 100); }, "101");
  const ScopedEnvironment empty("PLAIT_TEST_NUMBER", "");
  EXPECT_EQ(environment_integer("PLAIT_TEST_NUMBER", 7, 0, 100), 7);
}

}  // namespace
}  // namespace plait
