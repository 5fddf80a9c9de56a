// Messages between nodes by way of the network plug-ins that vendors write for NCCL
// (libnccl-net*.so), which know fabrics that Plait does not. The caller reads which plug-in is
// wanted: PLAIT_NET_PLUGIN.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dma_buf.hpp"
#include "transport/plugin/net_library.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// Exports device memory for a network card's driver: `Backend::export_dma_buf`, from any thread.
using ExportDmaBuf = std::function<DmaBuf(void* data, std::size_t bytes)>;

/// `path_or_name`: a path, a file name, or NAME of libnccl-net-NAME.so. `device`: one of the
/// plug-in's, counted from 0. A plug-in that takes dma-bufs registers device memory by them where
/// `export_dma_buf` makes them, else by address. Throws Error(invalid_argument) if there is no such
/// plug-in or device, and Error(bootstrap) if the plug-in fails.
std::unique_ptr<Transport> make_plugin_transport(const std::string& path_or_name, int device,
                                                 ExportDmaBuf export_dma_buf = {});

/// The plug-in's devices. Throws as `make_plugin_transport` does.
std::vector<NetDevice> plugin_devices(const std::string& path_or_name);

}  // namespace plait::transport
