// Accesses of memory by kernels that are compiled with -fsanitize=thread.
#pragma once
#include <cstddef>

namespace plait::test {

using AccessFunction = void (*)(const void* place, std::size_t bytes, bool stores);

/// What is called for each of them; null: nothing.
AccessFunction& on_access();

}  // namespace plait::test
