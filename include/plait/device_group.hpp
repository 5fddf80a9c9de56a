// Several devices of one process, driven by one thread.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/call.hpp"
#include "plait/collective_table.h"
#include "plait/communicator.hpp"
#include "plait/language.hpp"
#include "plait/stream.hpp"
#include "plait/types.hpp"

namespace plait {

class DeviceGroupState;

namespace detail {

// How an element of a range becomes a Value: by conversion, else by its `data()`, or for a number
// by its `size()`.
template <class Element, class Value>
concept Is = std::is_convertible_v<const Element&, Value>;
template <class Element, class Value>
concept PointsTo = requires(const Element& element) {
  { element.data() } -> std::convertible_to<Value>;
};
template <class Element, class Value>
concept Counts = std::same_as<Value, std::size_t> && requires(const Element& element) {
  { element.size() } -> std::convertible_to<Value>;
};

template <class Value, class Element>
constexpr Value as(const Element& element) {
  if constexpr (Is<Element, Value>) return element;
  else if constexpr (PointsTo<Element, Value>) return element.data();
  else return element.size();
}

template <class Range>
using Element = std::ranges::range_value_t<const Range>;

template <class Range, class Value>
concept Gives = std::ranges::contiguous_range<const Range> &&
    (Is<Element<Range>, Value> || PointsTo<Element<Range>, Value> || Counts<Element<Range>, Value>);

template <class Range>
using ElementOf =
    std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<const Element<Range>&>().data())>>;

/// A range of `Buffer<T>` or `std::span<T>`.
template <class Range>
concept Buffers = std::ranges::contiguous_range<const Range> &&
    requires(const Element<Range>& element) {
  { element.size() } -> std::convertible_to<std::size_t>;
  data_type_of<ElementOf<Range>>;
};

}  // namespace detail

/// One value per device of a group, in device order: a view of a range such as
/// `std::vector<float*>` or `std::array<void*, 2>`, or of a list in braces. Pointers may also come
/// as a range of `Buffer<T>` or `std::span<T>`, streams as a range of `plait::Stream`,
/// `cudaStream_t` or `hipStream_t`. It owns nothing: use it only as an argument of a call.
template <class Value>
class PerDevice {
 public:
  PerDevice() = default;
  template <detail::Gives<Value> Range>
  requires(!std::same_as<Range, PerDevice>)
      PerDevice(const Range& range)  // NOLINT(google-explicit-constructor): made to convert
      : data_(std::ranges::data(range)),
        size_(std::ranges::size(range)),
        at_([](const void* data, std::size_t i) -> Value {
          return detail::as<Value>(static_cast<const detail::Element<Range>*>(data)[i]);
        }) {}
  PerDevice(std::initializer_list<Value> list) : PerDevice(std::span<const Value>(list)) {}

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Value operator[](std::size_t i) const { return at_(data_, i); }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  Value (*at_)(const void*, std::size_t) = nullptr;
};

/// How to make a device group.
struct DeviceGroupOptions {
  /// None: PLAIT_BACKEND, else a GPU target that has devices, else the host.
  std::optional<BackendKind> backend{};
  /// None: PLAIT_TIMEOUT in seconds, else 10 minutes. 0: no deadline.
  std::optional<std::chrono::nanoseconds> timeout{};
  std::optional<std::size_t> scratch_bytes{};  ///< as in CommunicatorOptions
  bool reproducible = false;                   ///< likewise
  bool reproducible_tree = false;              ///< likewise
};

/// Several devices, each a rank of one communicator. One thread of one process does, without MPI,
/// what ranks in several processes do together.
///
///     plait::DeviceGroup gpus({0, 1});
///     auto x = gpus.allocate<float>(count);
///     gpus.all_reduce(x, x, plait::ReduceOp::sum);
///
/// One call serves all devices. It takes one pointer and one stream per device, in the order in
/// which the devices were named: entry i belongs to rank i. It only enqueues, on one device after
/// another, and never waits for a device. All arguments are checked, for all devices, before
/// anything is enqueued on any. On the host target a device is a rank on the CPU, and its number a
/// mere name.
///
/// Groups (plait/group.hpp), graph captures, algorithms, deadlines and errors are as for
/// `Communicator`; messages say which device a rank is. One thread at a time uses a device group.
/// Every call on one that was moved from throws `Error(invalid_argument)`. No call changes the
/// thread's current device.
class DeviceGroup {
 public:
  using Inputs = PerDevice<const void*>;
  using Outputs = PerDevice<void*>;
  using Streams = PerDevice<StreamRef>;

  /// Rank i is device `devices[i]`. Throws `Error(invalid_argument)` for no devices, for a device
  /// that does not exist and for one that is named twice; `Error(unsupported)` if the target has no
  /// devices. If no target is asked for and there is no GPU, the devices are ranks on the host.
  explicit DeviceGroup(std::vector<int> devices, const DeviceGroupOptions& options = {});
  /// The devices 0 to `devices` - 1. If no target is asked for: of a GPU target with that many
  /// devices, else ranks on the host.
  static DeviceGroup first(int devices, const DeviceGroupOptions& options = {});

  /// Waits for the work that is enqueued on the devices.
  ~DeviceGroup();
  DeviceGroup(DeviceGroup&&) noexcept;
  DeviceGroup& operator=(DeviceGroup&&) noexcept;

  int size() const;
  /// The communicator of rank `rank`, for calls that concern one device: `copy`, `statistics`,
  /// `progress`, `explain`. Calls that are collective on the host (`split`, `allocate`) need one
  /// thread per rank there. Throws `Error(invalid_argument)` if there is no such rank.
  Communicator& device(int rank) const;
  BackendKind backend_kind() const;
  /// One line per device: "rank 0 of 2: cuda device 0, NVIDIA H200 (sm_90)".
  std::string describe() const;

  /// Symmetric memory of `count` elements on every device, zeroed; see `Communicator::allocate`.
  /// Must not outlive the group.
  template <class T>
  std::vector<Buffer<T>> allocate(std::size_t count) {
    std::vector<Buffer<T>> buffers;
    for (auto& window : allocate_bytes(detail::bytes_or_most(count, sizeof(T))))
      buffers.push_back(detail::buffer_in<T>(std::move(window), count));
    return buffers;
  }
  std::vector<std::shared_ptr<Window>> allocate_bytes(std::size_t bytes);
  /// Makes memory of the program symmetric, `bytes` bytes on each device; see
  /// `Communicator::attach`.
  std::vector<std::shared_ptr<Window>> attach(std::span<void* const> pointers, std::size_t bytes);
  /// Ends that: the windows of one `attach`, in the order of the devices.
  void detach(std::span<const std::shared_ptr<Window>> windows);
  /// One stream per device.
  std::vector<Stream> create_streams();

  // The collectives, with the rules that `Communicator` gives for each: the sizes of `send` and
  // `recv`, the ranks that have them, the places in place. Each takes one pointer per device and a
  // count of elements, or one `Buffer<T>` or `std::span<T>` per device, whose sizes must fit:
  //
  //     all_reduce(send, recv, count, type, op, streams, options);
  //     all_reduce(send, recv, op, streams, options);
  //
  // Those that do not reduce take no `op`, and those with a root take `root` behind it. Symmetric
  // memory helps if all devices pass the same place in the same allocation, which is checked.
  // Without streams: the devices' default streams.
#define PLAIT_DEFINE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                       \
  void NAME(Inputs send, Outputs recv, std::size_t count,                                          \
            DataType type PLAIT_IF_##OP(, ReduceOp op) PLAIT_IF_##ROOT(, int root),                \
            Streams streams = {}, const CallOptions& options = {}) {                               \
    enqueue({.collective = Collective::NAME,                                                       \
             .type = type,                                                                         \
             PLAIT_IF_##OP(.op = op, ).count = count,                                              \
             PLAIT_IF_##ROOT(.root = root)},                                                       \
            send, recv, streams, options);                                                         \
  }                                                                                                \
  template <detail::Buffers Send, detail::Buffers Recv>                                            \
  void NAME(const Send& send,                                                                      \
            const Recv& recv PLAIT_IF_##OP(, ReduceOp op) PLAIT_IF_##ROOT(, int root),             \
            Streams streams = {}, const CallOptions& options = {}) {                               \
    enqueue_buffers(                                                                               \
        {.collective = Collective::NAME, PLAIT_IF_##OP(.op = op, ) PLAIT_IF_##ROOT(.root = root)}, \
        send, recv, streams, options);                                                             \
  }
  PLAIT_COLLECTIVES(PLAIT_DEFINE, PLAIT_NO_OTHER)
#undef PLAIT_DEFINE

  // The calls with a count per rank, with the rules that `Communicator` gives for each. Counts and
  // displacements that all devices must have in common are passed once; otherwise there is one
  // `BlocksOf` or `NeighborBlocks` per device, such as a `std::vector` of them.

  using BlocksOf = Communicator::BlocksOf;
  using NeighborBlocks = Communicator::NeighborBlocks;

  /// Device a sends to device b block b of `sent[a]`, which arrives as block a of `received[b]`.
  void all_to_all_v(Inputs send, PerDevice<BlocksOf> sent, Outputs recv,
                    PerDevice<BlocksOf> received, DataType type, Streams streams = {},
                    const CallOptions& options = {});
  /// Device r sends `received.counts[r]` elements, which all devices receive as block r.
  void all_gather_v(Inputs send, Outputs recv, const BlocksOf& received, DataType type,
                    Streams streams = {}, const CallOptions& options = {});
  /// The same for the root alone. The other devices' `recv` is not looked at.
  void gather_v(Inputs send, Outputs recv, const BlocksOf& received, DataType type, int root,
                Streams streams = {}, const CallOptions& options = {});
  /// Device r receives block r of the root's `send`, `sent.counts[r]` elements. The other devices'
  /// `send` is not looked at.
  void scatter_v(Inputs send, const BlocksOf& sent, Outputs recv, DataType type, int root,
                 Streams streams = {}, const CallOptions& options = {});
  /// Device r receives the reduction of all devices' block r, `counts[r]` elements.
  void reduce_scatter_v(Inputs send, std::span<const std::size_t> counts, Outputs recv,
                        DataType type, ReduceOp op, Streams streams = {},
                        const CallOptions& options = {});
  /// A message to each peer in `sent[r]` from device r, and to device r from each in `received[r]`.
  void neighbor_all_to_all_v(Inputs send, PerDevice<NeighborBlocks> sent, Outputs recv,
                             PerDevice<NeighborBlocks> received, DataType type,
                             Streams streams = {}, const CallOptions& options = {});

  /// No device's stream passes this point before all devices' streams have reached it.
  void barrier(Streams streams = {}, const CallOptions& options = {}) {
    enqueue({.collective = Collective::barrier}, {}, {}, streams, options);
  }

  /// Any collective, for programs that learn at run time which one; see `Communicator::enqueue`. A
  /// barrier needs no pointers.
  void enqueue(const Call& call, Inputs send, Outputs recv, Streams streams = {},
               const CallOptions& options = {});

  /// Waits until the streams of all devices are empty, even if one device has failed. Throws what
  /// `Communicator::synchronize` throws.
  void synchronize(Streams streams = {});
  /// True if the streams of all devices are empty. Throws what `Communicator::test` throws, once
  /// they are.
  bool test(Streams streams = {});
  /// Waits until the stream of at least one device is empty and returns its rank, the lowest if
  /// several are. Throws as `Communicator::wait_any`.
  int wait_any(Streams streams = {});
  /// The error that broke the group, if any; see `Communicator::async_error`. Any thread may call
  /// this.
  std::optional<Error> async_error() const;
  /// Ends all calls under way on all devices; see `Communicator::abort`. Any thread may call this,
  /// even while another thread is in a call.
  void abort(std::string_view reason = {});

 private:
  explicit DeviceGroup(std::unique_ptr<DeviceGroupState> state);
  template <class Send, class Recv>
  requires std::same_as<detail::ElementOf<Send>, detail::ElementOf<Recv>>
  void enqueue_buffers(Call call, const Send& send, const Recv& recv, Streams streams,
                       const CallOptions& options) {
    call.type = data_type_of<detail::ElementOf<Send>>;
    enqueue_checked(call, send, recv, PerDevice<std::size_t>(send), PerDevice<std::size_t>(recv),
                    streams, options);
  }
  void enqueue_checked(const Call& call, Inputs send, Outputs recv,
                       PerDevice<std::size_t> send_counts, PerDevice<std::size_t> recv_counts,
                       Streams streams, const CallOptions& options);
  template <class EndsOf>
  void by_messages(std::string_view what, DataType type, Inputs send, Outputs recv,
                   std::initializer_list<std::size_t> blocks, const EndsOf& ends_of,
                   Streams streams, const CallOptions& options);
  class Inside;
  DeviceGroupState& state(std::string_view call) const;

  std::unique_ptr<DeviceGroupState> state_;
};

}  // namespace plait
