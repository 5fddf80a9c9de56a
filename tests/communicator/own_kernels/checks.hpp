// What own kernels must do, by ranks that are threads or processes. All ranks call each function.
#pragma once
#include <cstddef>
#include <vector>

#include "plait/communicator.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// Zeroed memory of the device.
template <class T>
class DeviceValues {
 public:
  DeviceValues(Communicator& comm, std::size_t count)
      : comm_(comm), count_(count), data_(comm.allocate<T>(count)) {}
  T* data() const { return data_.data(); }
  const Buffer<T>& buffer() const { return data_; }
  void set(const std::vector<T>& values, StreamRef stream = {}) {
    comm_.copy(data(), values.data(), values.size() * sizeof(T), stream);
    comm_.synchronize(stream);
  }
  std::vector<T> get(StreamRef stream = {}) const {
    std::vector<T> values(count_);
    comm_.copy(values.data(), data(), count_ * sizeof(T), stream);
    comm_.synchronize(stream);
    return values;
  }

 private:
  Communicator& comm_;
  std::size_t count_;
  Buffer<T> data_;
};

/// Threads that a block of a launch with so many has on this target.
unsigned threads_of_block(Communicator& comm, unsigned threads);

/// Loads of the next rank's memory behind its signals, of many sizes and shapes.
void check_shift(Communicator& comm);
/// The same in a graph, and in groups beside other calls.
void check_shift_in_graphs(Communicator& comm);
void check_shift_in_groups(Communicator& comm);
/// All slots, counts of signals, barriers.
void check_all_to_all(Communicator& comm);
void check_sums(Communicator& comm);
/// Two kernels of one name.
void check_names(Communicator& comm);

}  // namespace plait::test
