#include "test_plugin.hpp"

extern "C" {
extern const plait::transport::net_interface::Table<10> ncclNetPlugin_v10;
const plait::transport::net_interface::Table<10> ncclNetPlugin_v10 =
    plait::test_plugin::table<10>();
}
