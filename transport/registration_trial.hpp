// Whether a transport can use memory, found out before anything depends on it.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

#include "plait/error.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// Registers `sent` and `received` with flows of this rank to itself, and ends both. Local. Throws
/// Error(unsupported), with the reason, if that fails or takes more than 10 s.
inline void try_to_register(Transport& transport, std::span<std::byte> sent,
                            std::span<std::byte> received, MemoryKind kind) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(10);
  try {
    const std::unique_ptr<Listener> listener = transport.listen();
    std::unique_ptr<SendFlow> sender;
    std::unique_ptr<ReceiveFlow> receiver;
    while (sender == nullptr || receiver == nullptr) {
      if (sender == nullptr) sender = transport.connect(listener->address());
      if (receiver == nullptr) receiver = listener->accept();
      if (Clock::now() > end)
        throw Error(ErrorCode::unsupported, "this rank can't connect to itself");
      std::this_thread::yield();
    }
    static_cast<void>(sender->register_memory(sent.data(), sent.size(), kind));
    static_cast<void>(receiver->register_memory(received.data(), received.size(), kind));
  } catch (const Error& error) {
    throw Error(ErrorCode::unsupported, fmt::format("{}: registering device memory: {}",
                                                    transport.properties().name, error.what()));
  }
}

}  // namespace plait::transport
