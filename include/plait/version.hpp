#pragma once  // SPDX-License-Identifier: Apache-2.0
#define PLAIT_VERSION_MAJOR 0
#define PLAIT_VERSION_MINOR 1
#define PLAIT_VERSION_PATCH 0
#define PLAIT_VERSION "0.1.0"
