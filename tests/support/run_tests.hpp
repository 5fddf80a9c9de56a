// RUN_ALL_TESTS, and what every program of tests wants beside it.
#pragma once

namespace plait::test {

/// Runs the tests that the command line asks for; call InitGoogleTest first. 0 if all passed.
/// Finding no test to run is a failure, because a filter that is out of date would pass for ever.
int run_tests();

/// The same on a rank that is a process. Rank 0 prints its progress; the other ranks print their
/// failures alone.
int run_tests(int rank);

}  // namespace plait::test
