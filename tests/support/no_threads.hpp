// A process that can start no thread.
#pragma once
#include <pthread.h>

#include <cstddef>

namespace plait::test {

/// While it lives, threads that ask for nothing else get a stack that no address space holds, so
/// that they can't be started.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&old_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&old_);
    pthread_attr_destroy(&old_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t old_;
};

}  // namespace plait::test
