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

/// Where a call is ordered: a `cudaStream_t`, a `hipStream_t` or a `plait::Stream`, not owned.
/// Default-constructed (or null): the default stream. Must belong to the communicator's device, and
/// may be used with all communicators on it.
///
/// - On the host each thread has a default stream of its own on each device, for all communicators
/// that it uses there. So calls of one
///   thread keep their order, and calls of two threads on two communicators don't wait for each
///   other. Calls and copies of *one* communicator on default streams are in the order in which
///   they are made, by whichever threads, and `synchronize` waits for all of them. What a thread
///   has enqueued is done though the thread ends.
/// - On GPUs the default stream is the device's, one for all threads, also in programs that are
/// compiled for one in each thread. Two
///   threads that use two communicators on it must call in the same order on all ranks: if one rank
///   enqueues a call of A before one of B, and another rank B's before A's, both wait for ever,
///   until the deadline. Pass each thread a stream of its own (`create_stream`).
///
/// On the host a device is a number: a rank has that of its place on the node, unless
/// `CommunicatorOptions::device` names one. A thread that drives several ranks of one process needs
/// another device, or stream, for each.
///
/// Calls refuse `cudaStreamPerThread` and `hipStreamPerThread`: handles of another stream in each
/// thread, where calls of several threads would have no order.
class StreamRef {
 public:
  StreamRef() = default;
  StreamRef(CUstream_st* stream) noexcept
      : native_(stream) {}  // NOLINT(google-explicit-constructor): that is its purpose
  StreamRef(ihipStream_t* stream) noexcept
      : native_(stream) {}                   // NOLINT(google-explicit-constructor)
  StreamRef(std::nullptr_t) noexcept {}      // NOLINT(google-explicit-constructor)
  StreamRef(const Stream& stream) noexcept;  // NOLINT(google-explicit-constructor)
  void* native() const noexcept { return native_; }

 private:
  void* native_ = nullptr;
};

/// An owned stream; from `Communicator::create_stream()`. On CUDA it is non-blocking with regard to
/// the default stream.
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
