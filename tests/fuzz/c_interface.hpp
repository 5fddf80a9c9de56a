// One rank's calls of the C interface, and the values that they take from the input.
#pragma once
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "plait/plait.h"
#include "plait/plait.hpp"
#include "target.hpp"

namespace plait::fuzz {

inline constexpr std::size_t most = 3000;           // elements of a call that is served
inline constexpr std::size_t room = 2 * 16 * most;  // bytes of two blocks of the largest type
inline constexpr std::size_t none =
    std::numeric_limits<std::size_t>::max();  // no memory can have so many

/// Bits of both terms, whatever the elements are. The context is the bytes of one; a call whose
/// structure was cut short has none.
inline void combine(const void* in, void* inout, std::size_t count, void* context) {
  if (context == nullptr) return;
  const auto* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(inout);
  for (std::size_t i = 0; i < count * *static_cast<const std::size_t*>(context); ++i)
    to[i] ^= from[i];
}

/// An address or a handle that nobody gave out.
template <class Pointer>
Pointer wild(std::uintptr_t number) {
  return reinterpret_cast<Pointer>(number);  // NOLINT(performance-no-int-to-ptr)
}

/// One rank's calls.
class Program {
 public:
  Program(plait_comm comm, Bytes bytes)
      : bytes_(bytes), comms_{comm, nullptr, wild<plait_comm>(0x12345)} {}

  void run() {
    int own = -1;
    require(plait_comm_rank(comms_.front(), &own) == PLAIT_SUCCESS,
            "the handle is one that the library knows");
    for (int calls = 0; calls < 40 && !bytes_.empty(); ++calls) call();
    while (group_is_open()) static_cast<void>(plait_group_end());
    for (plait_comm comm : made_) check(plait_comm_destroy(comm));
    check(plait_comm_destroy(comms_.front()));  // waits for what still uses the memory here
    for (plait_stream_t stream : streams_) check(plait_stream_destroy(stream));
    for (plait_event_t event : events_) check(plait_event_destroy(event));
  }

 private:
  plait_status check(plait_status status) {
    require(std::strcmp(plait_status_name(status), "invalid") != 0,
            "a status is one of the header's");
    if (status != PLAIT_SUCCESS) require_readable(plait_last_error());
    return status;
  }

  plait_comm comm() { return comms_[bytes_.next() % 8 < 6 ? 0 : bytes_.next() % comms_.size()]; }
  plait_stream_t stream() {
    return streams_.empty() || bytes_.next() % 2 == 0 ? nullptr : streams_.back();
  }
  std::size_t count() {
    const std::uint8_t kind = bytes_.next();
    if (kind < 200) return kind % 7 == 0 ? 0 : (kind * 37u) % most;
    const std::size_t choices[] = {none, none - 1, none / 2, none / 3};
    return bytes_.one_of(choices);
  }
  /// A place in ordinary memory, with room for two blocks of any type, or in a symmetric buffer.
  void* place() {
    const std::uint8_t kind = bytes_.next();
    if (kind < 8) return nullptr;
    if (kind < 16) return wild<void*>(0x10);
    void* symmetric = nullptr;
    if (kind < 100 && !buffers_.empty())
      static_cast<void>(plait_buffer_pointer(buffers_.back(), &symmetric));
    if (symmetric != nullptr)
      return static_cast<std::byte*>(symmetric) + (kind % 4 == 3 ? bytes_.next() : 0);
    return memory_[kind % 2].data() + (kind % 16 == 15 ? 1 : 0);
  }
  static bool is_null_page(const void* pointer) { return pointer == wild<void*>(0x10); }

  const plait_call_options* options() {
    if (bytes_.next() % 4 != 0) return nullptr;
    static const char* const names[] = {
        "",     "ring", "twoshot",  "oneshot_ll", "pairwise_ll", "direct_push",
        "yali", "p2p",  "nonesuch", "r\x1bing"};
    options_ = PLAIT_CALL_OPTIONS_INIT;
    options_.algorithm = bytes_.one_of(names);
    const double scales[] = {1, 0.5, -0.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
    options_.scale = bytes_.one_of(scales);
    const unsigned shapes[] = {0, 1, 2, 64, 65, 1u << 31, ~0u};
    options_.blocks = bytes_.next() % 4 == 0 ? bytes_.one_of(shapes) : 0;
    options_.threads = bytes_.next() % 4 == 0 ? bytes_.one_of(shapes) : 0;
    options_.symmetric = bytes_.next() % 4 == 0;
    const std::size_t sizes[] = {sizeof options_,     sizeof options_, sizeof options_, 0, 8, 16,
                                 sizeof options_ + 8, ~std::size_t{0}};
    options_.size = bytes_.one_of(sizes);
    return &options_;
  }
  plait_data_type type() {
    const std::uint8_t kind = bytes_.next();
    return static_cast<plait_data_type>(kind < 240 ? kind % 21 : static_cast<int>(kind) - 250);
  }
  plait_reduce_op op() {
    const std::uint8_t kind = bytes_.next();
    return static_cast<plait_reduce_op>(kind < 240 ? kind % 14 : static_cast<int>(kind) - 250);
  }
  int rank() {
    const int ranks[] = {
        0, 0, 0, 1, 1, -1, 2, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
    return bytes_.one_of(ranks);
  }
  struct Ends {
    void *send, *recv;
    std::size_t count;
  };
  Ends ends() {
    Ends ends{place(), place(), count()};
    // Only the caller can know that an address belongs to no buffer, so such a call must be refused
    // for its count.
    if ((is_null_page(ends.send) || is_null_page(ends.recv)) && ends.count != 0) ends.count = none;
    return ends;
  }

  const plait_host_operation* operation() {
    static std::size_t bytes[] = {1, 8, 16};
    if (bytes_.next() % 16 == 0) return nullptr;
    operation_ = PLAIT_HOST_OPERATION_INIT;
    operation_.function = bytes_.next() % 16 == 0 ? nullptr : combine;
    std::size_t& own = bytes[bytes_.next() % 3];
    operation_.context = &own;
    const std::size_t elements[] = {own, own, own, own, 0, none, none / 2};
    operation_.element_bytes = bytes_.one_of(elements);
    const std::size_t alignments[] = {1, 1, own, 8, 0, 3, 128, none};
    operation_.alignment = bytes_.one_of(alignments);
    const std::size_t sizes[] = {
        sizeof operation_, sizeof operation_, sizeof operation_, 0, 16, 24, sizeof operation_ + 8};
    operation_.size = bytes_.one_of(sizes);
    return &operation_;
  }
  plait_event_t event() {
    const std::uint8_t kind = bytes_.next();
    if (kind < 8) return nullptr;
    if (kind < 16) return wild<plait_event_t>(0x10);
    if (kind < 24) return dead_event_;
    return events_.empty() ? nullptr : events_[kind % events_.size()];
  }

  void call();
  void collective(unsigned which);
  void counted(const Ends& e);
  void own_operation(unsigned which);
  void completion(unsigned which);
  void message(unsigned which);
  void object(unsigned which);
  void question(unsigned which);

  Bytes bytes_;
  std::vector<plait_comm> comms_, made_;
  std::vector<plait_buffer> buffers_;
  std::vector<plait_stream_t> streams_;
  std::vector<plait_event_t> events_;
  plait_event_t dead_event_ = nullptr;  // destroyed, and still tried
  plait_call_options options_ = PLAIT_CALL_OPTIONS_INIT;
  plait_host_operation operation_ = PLAIT_HOST_OPERATION_INIT;
  std::array<std::vector<std::byte>, 2> memory_{std::vector<std::byte>(room + 8),
                                                std::vector<std::byte>(room + 8)};
};

}  // namespace plait::fuzz
