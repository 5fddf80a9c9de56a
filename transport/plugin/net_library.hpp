// A network plug-in in this process, whichever version of the interface it serves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/process.hpp"
#include "plait/error.hpp"
#include "transport/plugin/net_interface.hpp"

namespace plait::transport {

/// What Plait needs of a device's properties.
struct NetDevice {
  std::string name{}, pci_path{};  // the path is empty if unknown
  int pointer_support = 0;
  double speed = 0, latency = 0;  // Mbit/s and us, 0 if unknown
  std::size_t largest_message = 0;
};

/// The functions of a plug-in, in the shape of the newest version. All results are those of the
/// plug-in.
class NetCalls {
 public:
  using Result = net_interface::Result;

  virtual ~NetCalls() = default;
  virtual int version() const = 0;
  virtual const char* name() const = 0;
  /// Once per process up to version 10, once per transport from version 11 on.
  virtual Result init(void** context, std::uint64_t number) const = 0;
  virtual Result finalize(void* context) const = 0;
  virtual Result properties(int device, NetDevice& found) const = 0;
  virtual Result listen(void* context, int device, void* handle, void** comm) const = 0;
  virtual Result connect(void* context, int device, void* handle, void** comm) const = 0;
  virtual Result accept(void* listener, void** comm) const = 0;
  virtual Result isend(void* comm, void* data, std::size_t bytes, void* memory,
                       void** request) const = 0;
  virtual Result irecv(void* comm, void* data, std::size_t bytes, void* memory,
                       void** request) const = 0;
  virtual const net_interface::ProbeCalls& probe() const = 0;
  virtual const net_interface::MemoryCalls& memory() const = 0;
  virtual const net_interface::RequestCalls& requests() const = 0;
};

/// A loaded plug-in with a context of its own. Stays loaded to the end of the process, because
/// plug-ins start threads.
class NetPlugin {
 public:
  /// `name`: a path, a file name, or NAME of libnccl-net-NAME.so. Throws Error(invalid_argument) if
  /// there is no such plug-in, and Error(bootstrap) if it can't be initialised.
  explicit NetPlugin(const std::string& name);
  ~NetPlugin();
  NetPlugin(const NetPlugin&) = delete;
  NetPlugin& operator=(const NetPlugin&) = delete;

  const NetCalls* operator->() const { return calls_.get(); }
  void* context() const { return context_; }
  /// "network plug-in OFI (libnccl-net-ofi.so, version 11)".
  const std::string& title() const { return title_; }
  /// Throws if the result is an error: Error(bootstrap), or Error(rank_lost) if the call was one on
  /// a `connection` and the network is to blame.
  void check(net_interface::Result result, const char* call, bool connection = false) const;

 private:
  std::shared_ptr<const NetCalls> calls_;
  void* context_ = nullptr;
  std::string title_;
  Origin origin_;
};

}  // namespace plait::transport
