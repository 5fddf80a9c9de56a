// Plait: collectives between GPUs, and between CPU ranks. Include this.
#pragma once
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/communicator.hpp"
#include "plait/device_group.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"
#include "plait/language.hpp"
#include "plait/progress.hpp"
#include "plait/statistics.hpp"
#include "plait/stream.hpp"
#include "plait/types.hpp"
#include "plait/version.hpp"
