// In the place of plait/version.hpp for a plug-in that claims to be of another version.
#pragma once
#define PLAIT_VERSION_MAJOR 0
#define PLAIT_VERSION_MINOR 0
#define PLAIT_VERSION_PATCH 9
#define PLAIT_VERSION "0.0.9"
