// Streams: in-order queues of asynchronous work on a communicator's device.
#pragma once  // SPDX-License-Identifier: Apache-2.0
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
/// - On the host each thread has its own default stream on each device, and uses it with all
///   communicators there. So the calls of one thread keep their order, and calls of two threads on
///   two communicators don't wait for each other. Calls and copies of *one* communicator on default
///   streams run in the order in which threads make them, and `synchronize` waits for all of them.
///   Work that a thread has enqueued is done even if the thread ends.
/// - On GPUs the default stream belongs to the device, and all threads share it, even in programs
///   compiled with per-thread default streams. Two threads that use two communicators on it must
///   call in the same order on all ranks. Otherwise one rank may enqueue a call of A before a call
///   of B, and another rank B's before A's: then both wait until the deadline. Give each thread its
///   own stream instead (`create_stream`).
///
/// On the host a device is a number: the rank's index on the node, unless
/// `CommunicatorOptions::device` names another. A thread that drives several ranks of one process
/// needs a different device, or stream, for each.
///
/// Calls refuse `cudaStreamPerThread` and `hipStreamPerThread`: these handles mean a different
/// stream in each thread, so calls of several threads would have no order.
class StreamRef {
 public:
  StreamRef() = default;
  // Made to convert. NOLINTBEGIN(google-explicit-constructor)
  StreamRef(CUstream_st* stream) noexcept : native_(stream) {}
  StreamRef(ihipStream_t* stream) noexcept : native_(stream) {}
  StreamRef(std::nullptr_t) noexcept {}
  StreamRef(const Stream& stream) noexcept;
  // NOLINTEND(google-explicit-constructor)
  void* native() const noexcept { return native_; }

 private:
  void* native_ = nullptr;
};

/// An owned stream, from `Communicator::create_stream()`. On CUDA it does not synchronise with the
/// default stream.
class Stream {
 public:
  explicit Stream(std::shared_ptr<Backend> backend);
  /// Waits for the stream's work. In a child made by fork, where none of that work is, it does
  /// nothing, silently.
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  void* native() const noexcept { return native_; }

 private:
  std::shared_ptr<Backend> backend_;
  void* native_ = nullptr;
  std::uint64_t process_;  // the process that made it
};

inline StreamRef::StreamRef(const Stream& stream) noexcept : native_(stream.native()) {}

}  // namespace plait
