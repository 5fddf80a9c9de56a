// A limit of this process (setrlimit) that a test lowers for a while.
#pragma once
#include <sys/resource.h>

namespace plait::test {

class ResourceLimit {
 public:
  ResourceLimit(__rlimit_resource what, rlim_t value) : what_(what) {
    getrlimit(what_, &old_);
    const rlimit limit{value, old_.rlim_max};
    setrlimit(what_, &limit);
  }
  ~ResourceLimit() { setrlimit(what_, &old_); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  __rlimit_resource what_;
  rlimit old_{};
};

}  // namespace plait::test
