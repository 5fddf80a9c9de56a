#include "test_plugin.hpp"

extern "C" {
extern const plait::transport::net_interface::Table<8> ncclNetPlugin_v8;
const plait::transport::net_interface::Table<8> ncclNetPlugin_v8 = plait::test_plugin::table<8>();
}
