// flash with the bulk copy engine, on targets that have one.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/flash/kernel.hpp"

namespace plait::flash_bulk {

using Types = ReducedTypes;
using flash::Args;

template <class T>
struct Kernel : flash::AllReduce<T, flash::BulkCopies> {};

}  // namespace plait::flash_bulk
