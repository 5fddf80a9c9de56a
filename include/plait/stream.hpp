// Streams: in-order queues of asynchronous work on a communicator's device.
#pragma once
#include <cstdint>
#include <memory>

#include "plait/language.hpp"

struct CUstream_st;   // cudaStream_t
struct ihipStream_t;  // hipStream_t

namespace plait {

class Backend;
class Stream;

/// Where a call is ordered: a `cudaStream_t`, a `hipStream_t` or a `plait::Stream`, not owned. Default-constructed (or null):
/// the default stream of the device, also in programs that are compiled for one in each thread. Must belong to the communicator's device.
///
/// All communicators of a process on one device share its default stream, and a stream may be used with each of them. Ranks of the host
/// target that are threads of one process, and would so share a host device, have one each instead: that of the thread that made their
/// first communicator. It is shared with what that thread makes later, and with the parts and duplicates of all these.
///
/// Calls refuse `cudaStreamPerThread` and `hipStreamPerThread`: handles of another stream in each thread, where calls of several threads
/// would have no order.
class StreamRef {
 public:
  StreamRef() = default;
  StreamRef(CUstream_st* stream) noexcept : native_(stream) {}   // NOLINT(google-explicit-constructor): that is its purpose
  StreamRef(ihipStream_t* stream) noexcept : native_(stream) {}  // NOLINT(google-explicit-constructor)
  StreamRef(std::nullptr_t) noexcept {}                          // NOLINT(google-explicit-constructor)
  StreamRef(const Stream& stream) noexcept;                      // NOLINT(google-explicit-constructor)
  void* native() const noexcept { return native_; }

 private:
  void* native_ = nullptr;
};

/// An owned stream; from `Communicator::create_stream()`. On CUDA it is non-blocking with regard to the default stream.
class Stream {
 public:
  explicit Stream(std::shared_ptr<Backend> backend);
  /// Waits for its work. In a child made by fork, which has none of it, lets go without a word.
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  void* native() const noexcept { return native_; }

 private:
  std::shared_ptr<Backend> backend_;
  void* native_ = nullptr;
  std::uint64_t process_;  // that made it
};

inline StreamRef::StreamRef(const Stream& stream) noexcept : native_(stream.native()) {}

}  // namespace plait
