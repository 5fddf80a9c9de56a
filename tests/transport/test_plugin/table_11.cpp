#include "test_plugin.hpp"

extern "C" {
extern const plait::transport::net_interface::Table<11> ncclNetPlugin_v11;
const plait::transport::net_interface::Table<11> ncclNetPlugin_v11 =
    plait::test_plugin::table<11>();
}
