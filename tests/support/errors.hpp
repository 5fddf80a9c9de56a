// Shared by tests of errors: catching them, comparing them, and waiting until a rank in no call
// has heard of one.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>

#include "plait/group.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// The error of a call, if there is one.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

inline void expect_error(const std::optional<Error>& error, ErrorCode code,
                         const testing::Matcher<std::string>& message) {
  ASSERT_TRUE(error.has_value()) << "no error was thrown";
  EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what();
  EXPECT_THAT(std::string(error->what()), message);
}

/// `call` throws `code`, and the text has all of these words.
template <class... Words>
void expect_throws(ErrorCode code, const std::function<void()>& call, const Words&... words) {
  const auto error = error_of(call);
  ASSERT_TRUE(error.has_value()) << "no error was thrown";
  EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what();
  for (const std::string& word : std::initializer_list<std::string>{std::string(words)...})
    EXPECT_THAT(std::string(error->what()), testing::HasSubstr(word));
}
template <class... Words>
void expect_invalid(const std::function<void()>& call, const Words&... words) {
  expect_throws(ErrorCode::invalid_argument, call, words...);
}

/// The calls as a group.
inline std::function<void()> in_a_group(const std::function<void()>& calls) {
  return [calls] {
    const Group group;
    calls();
  };
}

/// The text of the error that `call` throws, which is expected to have this code.
inline std::string message_of(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

/// In which an abort, a lost rank or calls that differ must have reached all ranks.
inline constexpr std::chrono::seconds promised{under_tsan ? 20 : 1};

/// No deadline that could be taken for what the test is about.
inline CommunicatorOptions patient() {
  CommunicatorOptions options;
  options.timeout = std::chrono::seconds(0);
  return test_options(options);
}

/// Until this rank, in no call, has heard of an error.
inline std::optional<Error> heard(const Communicator& comm,
                                  std::chrono::seconds within = 2 * promised) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (!comm.async_error() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return comm.async_error();
}

}  // namespace plait::test
