// A stream's work around its calls, all on the device: inputs are made, results are looked at, and
// a kernel holds the stream up.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/order/kernel.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// Zeroed words, on the device or pinned. Allocate before the first kernel waits for a peer, free
/// after the last.
class WordBuffer {
 public:
  enum class Kind { device, pinned };
  WordBuffer(std::shared_ptr<Backend> backend, Kind kind, std::size_t count)
      : backend_(std::move(backend)), kind_(kind) {
    const DeviceScope device(*backend_);
    const std::size_t bytes = count * sizeof(std::uint32_t);
    words_ = static_cast<std::uint32_t*>(kind == Kind::pinned ? backend_->allocate_pinned(bytes)
                                                              : backend_->allocate(bytes));
    if (kind == Kind::pinned) return;
    backend_->fill(words_, 0, bytes, nullptr);
    backend_->synchronize(nullptr);
  }
  ~WordBuffer() {
    const DeviceScope device(*backend_);
    if (kind_ == Kind::pinned) backend_->deallocate_pinned(words_);
    else backend_->deallocate(words_);
  }
  WordBuffer(const WordBuffer&) = delete;
  WordBuffer& operator=(const WordBuffer&) = delete;
  std::uint32_t* data() const { return words_; }

 private:
  std::shared_ptr<Backend> backend_;
  Kind kind_;
  std::uint32_t* words_ = nullptr;
};

/// Launches the kernel of order/kernel.hpp on one rank.
class OrderKernel {
 public:
  OrderKernel(std::shared_ptr<Backend> backend, int rank)
      : backend_(std::move(backend)),
        rank_(rank),
        pinned_(backend_, WordBuffer::Kind::pinned, 1024),
        claimed_(backend_, WordBuffer::Kind::device, 1) {}

  void launch(order::Args args, LaunchShape shape, StreamRef stream) {
    const DeviceScope device(*backend_);
    args.rank = rank_;
    const Watch watch{
        .abort = pinned_.data() + 1,
        .record = reinterpret_cast<DiagnosticRecord*>(pinned_.data() + 16),
        .claimed = claimed_.data(),
        .timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(patience).count()),
        .call = 1,
        .algorithm = 0,
        .rank = rank_};
    backend_->launch(backend_->find_kernel("order", DataType::u32), shape, &args, sizeof(args),
                     watch, stream.native());
  }
  /// Work that the stream is given after this waits for `open`, within the tests' deadline.
  void hold(StreamRef stream) {
    order::Args args{};
    args.step = order::Step::hold;
    args.gate = pinned_.data();
    launch(args, {1, 1}, stream);
  }
  void open() { std::atomic_ref(*pinned_.data()).store(1, std::memory_order_release); }

 private:
  std::shared_ptr<Backend> backend_;
  int rank_;
  WordBuffer pinned_, claimed_;
};

/// Elements that were wrong so far, and rounds.
struct Outcome {
  std::uint64_t wrong = 0;
  std::uint32_t rounds = 0;
};

/// Rounds of one call, with other data in each. Which round it is stands in device memory, so that
/// a graph counts on.
class Pipeline {
 public:
  /// On `count` words that live as long as this.
  Pipeline(const std::shared_ptr<Backend>& backend, int rank, int ranks, std::uint32_t* send,
           std::uint32_t* recv, std::size_t count)
      : backend_(backend),
        kernel_(backend, rank),
        words_(backend, WordBuffer::Kind::device, 1 + threads()),
        send_(send),
        recv_(recv),
        count_(count),
        own_times_(static_cast<std::uint32_t>(rank) + 1),
        sum_times_(static_cast<std::uint32_t>(ranks * (ranks + 1) / 2)) {}

  /// Makes the next round's input.
  void produce(StreamRef stream, std::uint32_t* to = nullptr) {
    order::Args args = base(order::Step::advance, nullptr, 0);
    kernel_.launch(args, {1, 1}, stream);
    kernel_.launch(base(order::Step::produce, to != nullptr ? to : send_, own_times_), shape(),
                   stream);
  }
  void reduce(Communicator& comm, StreamRef stream, const CallOptions& options = {}) {
    comm.all_reduce(send_, recv_, count_, DataType::u32, ReduceOp::sum, stream, options);
  }
  /// Compares with the sum, or a multiple of it.
  void consume(StreamRef stream, std::uint32_t factor = 1, std::uint32_t* from = nullptr) {
    kernel_.launch(base(order::Step::consume, from != nullptr ? from : recv_, factor * sum_times_),
                   shape(), stream);
  }
  void round(Communicator& comm, StreamRef stream, const CallOptions& options = {}) {
    produce(stream);
    reduce(comm, stream, options);
    consume(stream);
  }

  /// Waits for the stream.
  Outcome outcome(StreamRef stream) {
    const DeviceScope device(*backend_);
    std::vector<std::uint32_t> words(1 + threads());
    backend_->synchronize(stream.native());
    backend_->copy(words.data(), words_.data(), words.size() * sizeof(std::uint32_t),
                   stream.native());
    backend_->synchronize(stream.native());
    return {.wrong = std::accumulate(words.begin() + 1, words.end(), std::uint64_t{0}),
            .rounds = words[0]};
  }

  std::uint32_t* send() const { return send_; }
  std::uint32_t* recv() const { return recv_; }
  std::size_t bytes() const { return count_ * sizeof(std::uint32_t); }

 private:
  static LaunchShape shape() {
    return target() == BackendKind::host ? LaunchShape{1, 1} : LaunchShape{16, 256};
  }
  static std::size_t threads() { return std::size_t{shape().blocks} * shape().threads; }
  order::Args base(order::Step step, std::uint32_t* data, std::uint32_t times) const {
    return {.step = step,
            .rank = 0,
            .gate = nullptr,
            .round = words_.data(),
            .data = data,
            .count = count_,
            .times = times,
            .wrong = words_.data() + 1};
  }

  std::shared_ptr<Backend> backend_;
  OrderKernel kernel_;
  WordBuffer words_;
  std::uint32_t *send_, *recv_;
  std::size_t count_;
  std::uint32_t own_times_, sum_times_;
};

/// A pipeline and its memory: symmetric, so that all algorithms can serve it. Collective.
class Message {
 public:
  Message(Communicator& comm, std::size_t count)
      : send_(comm.allocate<std::uint32_t>(count)),
        recv_(comm.allocate<std::uint32_t>(count)),
        pipeline_(backend_of(comm).again(), comm.rank(), comm.size(), send_.data(), recv_.data(),
                  count) {}
  Pipeline& operator*() { return pipeline_; }
  Pipeline* operator->() { return &pipeline_; }

 private:
  Buffer<std::uint32_t> send_, recv_;
  Pipeline pipeline_;
};

}  // namespace plait::test
