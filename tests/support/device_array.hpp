// Device memory with guard bands, and a host image of it. Everything goes through the backend, so
// the same tests run on every target.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "backends/backend.hpp"
#include "plait/communicator.hpp"

namespace plait::test {

/// [guard][offset][data][guard] in device memory of one rank, mirrored in pinned host memory. Data
/// may start at any byte offset.
class DeviceArray {
 public:
  static constexpr std::size_t guard = 512;

  /// Ordinary device memory for at most `capacity` bytes of data and offset.
  DeviceArray(Backend& backend, std::size_t capacity)
      : backend_(backend), size_(capacity + 2 * guard) {
    owned_ = device_ = static_cast<std::byte*>(backend_.allocate(size_));
    image_ = static_cast<std::byte*>(backend_.allocate_pinned(size_));
  }
  /// Symmetric memory. Collective. With PLAIT_TEST_ATTACH=1 it is attached, and lies elsewhere in
  /// its allocation on each rank.
  DeviceArray(Communicator& comm, std::size_t capacity)
      : backend_(backend_of(comm)), size_(capacity + 2 * guard) {
    if (std::getenv("PLAIT_TEST_ATTACH") != nullptr) {
      constexpr std::size_t step = 16, most = 64;
      owned_ = static_cast<std::byte*>(backend_.allocate(size_ + step * most));
      device_ = owned_ + step * (static_cast<std::size_t>(comm.rank()) * 11 % most);
      window_ = comm.attach(device_, size_);
    } else {
      buffer_ = comm.allocate<std::byte>(size_);
      device_ = buffer_.data();
    }
    image_ = static_cast<std::byte*>(backend_.allocate_pinned(size_));
  }
  /// Symmetric memory that was allocated already, with room for the guards.
  DeviceArray(Backend& backend, Buffer<std::byte> buffer)
      : backend_(backend),
        buffer_(std::move(buffer)),
        size_(buffer_.size()),
        device_(buffer_.data()) {
    image_ = static_cast<std::byte*>(backend_.allocate_pinned(size_));
  }
  ~DeviceArray() {
    window_.reset();
    if (owned_ != nullptr) backend_.deallocate(owned_);
    backend_.deallocate_pinned(image_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  /// Chooses where the data lie, and poisons the image.
  void place(std::size_t offset, std::size_t bytes) {
    if (guard + offset + bytes + guard > size_)
      throw std::logic_error("DeviceArray: too small for the test");
    offset_ = offset;
    bytes_ = bytes;
    in_blocks(0, used(), [](std::byte* image, const std::byte* poison, std::size_t length) {
      std::memcpy(image, poison, length);
    });
  }
  /// Places `count` elements of T, `offset` of them behind an aligned address, and uploads
  /// element(i) for each.
  template <class T, class Element>
  void put(std::size_t count, Element element, StreamRef stream = {}, std::size_t offset = 0) {
    place(offset * sizeof(T), count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) set<T>(i, element(i));
    upload(stream);
  }
  /// Sets element i of the image.
  template <class T>
  void set(std::size_t i, const T& x) {
    std::memcpy(image() + i * sizeof(T), &x, sizeof(T));
  }
  /// Element i of the image.
  template <class T>
  T get(std::size_t i) const {
    T x;
    std::memcpy(static_cast<void*>(&x), image() + i * sizeof(T), sizeof(T));
    return x;
  }
  /// The data on the device, and in the image.
  void* device() const { return device_ + guard + offset_; }
  std::byte* image() const { return image_ + guard + offset_; }

  void upload(StreamRef stream) { backend_.copy(device_, image_, used(), stream.native()); }
  void download(StreamRef stream) { backend_.copy(image_, device_, used(), stream.native()); }

  /// After a download: empty, or which byte beside the data has changed.
  std::string damage() const {
    const std::size_t begin = guard + offset_, end = begin + bytes_;
    if (is_poison(0, begin) && is_poison(end, used())) return {};
    std::size_t i = 0;
    while (i == begin || image_[i] == poison()[i % period]) i = i == begin ? end : i + 1;
    return "byte " + std::to_string(static_cast<long>(i) - static_cast<long>(begin)) + " of " +
           std::to_string(bytes_) + " was overwritten";
  }
  /// After a download: whether the data are still poison.
  bool untouched() const { return is_poison(0, used()); }

 private:
  std::size_t used() const { return guard + offset_ + bytes_ + guard; }

  // Poison repeats itself, so that it is written and compared in blocks: race checkers see each
  // block once.
  static constexpr std::size_t period = 256;
  static const std::array<std::byte, period>& poison() {
    static const auto bytes = [] {
      std::array<std::byte, period> one_period;
      for (std::size_t i = 0; i < period; ++i)
        one_period[i] = static_cast<std::byte>((0xa5u ^ (i * 31)) & 0xffu);
      return one_period;
    }();
    return bytes;
  }
  /// Calls body(image, poison there, bytes).
  template <class Body>
  void in_blocks(std::size_t begin, std::size_t end, Body body) const {
    while (begin < end) {
      const std::size_t bytes = std::min(end - begin, period - begin % period);
      body(image_ + begin, poison().data() + begin % period, bytes);
      begin += bytes;
    }
  }
  bool is_poison(std::size_t begin, std::size_t end) const {
    bool same = true;
    in_blocks(begin, end, [&](const std::byte* image, const std::byte* poison, std::size_t bytes) {
      same = same && std::memcmp(image, poison, bytes) == 0;
    });
    return same;
  }

  Backend& backend_;
  Buffer<std::byte> buffer_;
  std::shared_ptr<Window> window_;
  std::size_t size_;
  std::size_t offset_ = 0, bytes_ = 0;
  std::byte* device_ = nullptr;
  std::byte* owned_ = nullptr;
  std::byte* image_ = nullptr;
};

/// The memory of one rank that all tests of a communicator use: allocated before the first kernel
/// spins, freed after the last.
struct Arena {
  static constexpr std::size_t default_capacity = std::size_t{5} << 18;  // 1.25 MB

  /// Collective. `capacity`: bytes of data and offset that each of the four arrays has room for.
  explicit Arena(Communicator& comm, std::size_t capacity = default_capacity)
      : send(backend_of(comm), capacity),
        recv(backend_of(comm), capacity),
        symmetric_send(comm, capacity),
        symmetric_recv(comm, capacity) {}

  DeviceArray send, recv, symmetric_send, symmetric_recv;
};

}  // namespace plait::test
