// Symmetric memory that its owner holds as an array.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "plait/language.hpp"

namespace plait {

class Window;

/// Symmetric memory as an array of T on this rank's device. The destructor frees it, and waits for
/// this rank's device to do so; mappings of it on peers stay valid until the peers free theirs.
/// Must not outlive the communicator.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Window> window, T* data, std::size_t count)
      : window_(std::move(window)), data_(data), count_(count) {}
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer&) = default;
  /// Leaves `other` empty.
  Buffer(Buffer&& other) noexcept
      : window_(std::move(other.window_)),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    std::swap(window_, moved.window_);
    std::swap(data_, moved.data_);
    std::swap(count_, moved.count_);
    return *this;
  }
  ~Buffer() = default;
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  std::span<T> span() const noexcept { return {data_, count_}; }
  const std::shared_ptr<Window>& window() const noexcept { return window_; }

 private:
  std::shared_ptr<Window> window_;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

namespace detail {
void* local_pointer(const Window& window);
/// Bytes of `count` elements, or the largest number if they overflow. So an overflow is refused in
/// the call, where all ranks agree on the refusal.
constexpr std::size_t bytes_or_most(std::size_t count, std::size_t size) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return count > most / size ? most : count * size;
}
template <class T>
Buffer<T> buffer_in(std::shared_ptr<Window> window, std::size_t count) {
  T* const data = static_cast<T*>(local_pointer(*window));
  return {std::move(window), data, count};
}
}  // namespace detail

}  // namespace plait
