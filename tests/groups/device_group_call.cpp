// A call on a device group in each type.
#include "groups/device_group_call.hpp"

namespace plait::test {

template class GroupRun<std::int32_t>;
template class GroupRun<double>;

void check_case(DeviceGroup& gpus, GroupArena& arena, const GroupCase& c,
                DeviceGroup::Streams streams) {
  dispatch_all(c.call.type, [&]<class T>() {
    GroupRun<T> run(gpus, arena, c);
    run.upload(streams);
    run.enqueue(streams);
    run.check(streams);
  });
}

}  // namespace plait::test
