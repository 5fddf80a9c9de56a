// MPI's life in this process: who initialises and finalises it, and the bootstraps in between.
#pragma once
#include <mutex>
#include <set>

#include "plait/bootstrap.hpp"

namespace plait::detail {

/// All MPI bootstraps that exist.
class OpenBootstraps {
 public:
  static OpenBootstraps& instance();
  void add(Bootstrap* bootstrap) {
    const std::scoped_lock lock(mutex_);
    bootstraps_.insert(bootstrap);
  }
  void remove(Bootstrap* bootstrap) {
    const std::scoped_lock lock(mutex_);
    bootstraps_.erase(bootstrap);
  }
  void say_farewell();

 private:
  std::mutex mutex_;
  std::set<Bootstrap*> bootstraps_;
};

/// Initialises MPI if that has not been done yet; the exit of the process then finalises it. Throws
/// Error: `invalid_argument` in a child that was forked from a process that had initialised MPI,
/// `bootstrap` if MPI is finalised or fails.
void initialize_mpi();

}  // namespace plait::detail
