#include "test_plugin.hpp"

extern "C" {
extern const plait::transport::net_interface::Table<9> ncclNetPlugin_v9;
const plait::transport::net_interface::Table<9> ncclNetPlugin_v9 = plait::test_plugin::table<9>();
}
