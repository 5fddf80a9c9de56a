#include "core/start_thread.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "core/signal_mask.hpp"
#include "plait/error.hpp"

namespace plait {

std::thread start_thread(std::string_view what, std::function<void()> body) {
  const SignalMask inherited(SignalMask::of_library());
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::backend, fmt::format("can't start {}: {}", what, error.what()));
  }
}

}  // namespace plait
