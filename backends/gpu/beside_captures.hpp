// Work that must not depend on the caller's streams: they may be captured, or their kernels may
// spin.
#pragma once
#include <cstddef>

namespace plait::gpu {

/// While a thread captures a stream, the runtime refuses its allocations and its queries of events,
/// even if they have nothing to do with that stream, and ends the capture. The thread may make
/// these calls as long as one of these objects lives.
template <class Runtime>
class BesideCaptures {
 public:
  BesideCaptures() { Runtime::exchange_capture_mode(&mode_); }
  ~BesideCaptures() { static_cast<void>(Runtime::exchange_capture_mode.status(&mode_)); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  typename Runtime::CaptureMode mode_ = Runtime::capture_relaxed;
};

/// Calls enqueue(stream) with a stream of its own and waits only for that. Waiting for the device
/// instead would be refused while a stream is captured, and would take as long as any kernel.
template <class Runtime, class Enqueue>
void on_own_stream(Enqueue enqueue) {
  const BesideCaptures<Runtime> beside;
  struct Owned {
    typename Runtime::Stream stream = nullptr;
    Owned() { Runtime::stream_create(&stream, Runtime::stream_non_blocking); }
    ~Owned() { static_cast<void>(Runtime::stream_destroy.status(stream)); }
  } own;
  enqueue(own.stream);
  Runtime::stream_synchronize(own.stream);
}
template <class Runtime>
void zero(void* to, std::size_t bytes) {
  on_own_stream<Runtime>([&](auto stream) { Runtime::fill(to, 0, bytes, stream); });
}

}  // namespace plait::gpu
