// Shared by the tests with a deadline: a short one, and ranks that let it pass.
#pragma once
#include <chrono>

#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {

inline constexpr std::chrono::milliseconds deadline{300};
inline constexpr std::chrono::seconds soon{under_tsan ? 30 : 5};

inline CommunicatorOptions impatient() { return test_options({.timeout = deadline}); }

/// Makes no call until the others' time is over.
inline void stay(const Communicator& comm) { static_cast<void>(heard(comm)); }

}  // namespace plait::test
