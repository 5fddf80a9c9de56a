#include "test_plugin.hpp"

extern "C" {
extern const plait::transport::net_interface::Table<12> ncclNetPlugin_v12;
const plait::transport::net_interface::Table<12> ncclNetPlugin_v12 =
    plait::test_plugin::table<12>();
}
