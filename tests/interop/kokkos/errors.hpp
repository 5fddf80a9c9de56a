// Shared by the tests of errors: what a call on bad arguments says.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <plait/plait.hpp>
#include <string>

#include "world.hpp"

namespace plait::test {

using testing::HasSubstr;

using Matrix = Kokkos::View<double**, Right, Kokkos::HostSpace>;
using Vector = Kokkos::View<double*, Right, Kokkos::HostSpace>;

/// The error that a call throws.
template <class F>
std::string error_of(F&& call) {
  const auto calls = comm().statistics().calls;
  std::string text = "no error";
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    text = error.what();
  }
  EXPECT_EQ(comm().statistics().calls, calls) << "something was enqueued";
  return text;
}

inline std::string from(const char* collective) {
  return std::string(collective) + ": rank " + std::to_string(rank()) + ": ";
}

}  // namespace plait::test
