// Threads of the library itself.
#pragma once
#include <functional>
#include <string_view>
#include <thread>

namespace plait {

/// A thread that runs `body` and takes no signals of the process (`SignalMask::of_library`). The
/// only way to start one in the library. Throws `Error(backend)`, "can't start `what`: ...", if the
/// system can't start another one.
std::thread start_thread(std::string_view what, std::function<void()> body);

}  // namespace plait
