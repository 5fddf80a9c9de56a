// What tests set and read of the plug-in, by name.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "transport/plugin/net_interface.hpp"

namespace plait::test_plugin {

using namespace transport::net_interface;

/// A number that tests set or read by its name.
class Fault : public std::atomic<int> {
 public:
  explicit Fault(const char* name, int value = 0) : std::atomic<int>(value) {
    all().emplace(name, this);
  }
  using std::atomic<int>::operator=;
  static std::map<std::string_view, Fault*>& all();
};

struct Faults {
  Fault fail_after{"fail_after", -1};       // isend fails after so many messages of its comm
  Fault null_every{"null_every"};           // each such isend and irecv starts nothing
  Fault null_connects{"null_connects", 3};  // so many calls of connect and accept find nothing
  Fault fail_init{"fail_init"};
  // Of host memory, and of a device's: fails after so many successes.
  Fault fail_register{"fail_register", -1}, fail_device_register{"fail_device_register", -1};
  Fault shorts{"shorts"};  // a system call moves at most a hashed number of bytes, often few
  /// Messages of a comm travel in a hashed order, as over several queue pairs, and leave in `test`
  /// alone. So requests are done in another order than they were started in.
  Fault shuffles{"shuffles"};
  Fault flush_tests{"flush_tests"};    // a flush is done after up to so many calls of `test`
  Fault null_flushes{"null_flushes"};  // each such flush is done at once and makes no request
  Fault devices{"devices", 1};
  Fault pointers{"pointers", host_pointers};
  Fault cuda{"cuda"};  // device memory is that of a GPU, else of the host
  /// The plug-in finds the bytes of device memory so far behind their address, so a test sees who
  /// else touches them.
  Fault device_shift{"device_shift"};
  // Counted, for tests. `orphans`: registrations that were left when their comm ended, which some
  // plug-ins answer by touching what is gone. `device_sends`: messages out of device memory.
  // `late`: requests that were done after a later one of their comm. `used_devices`: a bit for each
  // that has listened.
  Fault contexts{"contexts"}, comms{"comms"}, registrations{"registrations"}, orphans{"orphans"},
      flushes{"flushes"}, dma_bufs{"dma_bufs"}, device_sends{"device_sends"}, late{"late"},
      used_devices{"used_devices"};
};
extern Faults faults;

/// A number for each call, whatever the threads do.
std::uint64_t draw();

/// Copies to or from device memory. False if the driver fails.
bool copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace plait::test_plugin
