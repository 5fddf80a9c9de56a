// RUN_ALL_TESTS for every program of tests.
#pragma once

namespace plait::test {

/// Runs the tests that the command line asks for; call InitGoogleTest first. 0 if all passed. A
/// filter that matches no test is a failure: with an outdated name in it, it would test nothing.
int run_tests();

/// The same on a rank that is a process. Rank 0 prints its progress; the other ranks print their
/// failures alone.
int run_tests(int rank);

}  // namespace plait::test
