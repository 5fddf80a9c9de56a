// A kernel of the host target: a function that runs one thread of one block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/kernel_table.hpp"

namespace plait::host {

class KernelWords;
using HostKernel = void (*)(KernelWords&, const void* args);

}  // namespace plait::host

namespace plait {
template <>
KernelTable<host::HostKernel>& KernelTable<host::HostKernel>::instance();
}
