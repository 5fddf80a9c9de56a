// Hooks that the library attaches to a Bootstrap. Users don't see them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/bootstrap.hpp"

namespace plait {

struct BootstrapHooks {
  /// The thread that is in a call of `bootstrap` calls `look` when the call begins and every few
  /// milliseconds while it waits. An exception from `look` ends the call on this rank. An empty
  /// `look` takes the hook away. Groups that are split off do not inherit it.
  static void set_interrupt(Bootstrap& bootstrap, std::function<void()> look) {
    bootstrap.interrupt_ = std::move(look);
  }
  static void throw_if_interrupted(const Bootstrap& bootstrap) { bootstrap.throw_if_interrupted(); }

  /// The thread that ends the process calls `farewell` if `bootstrap` still exists then and the end
  /// waits for other ranks, as MPI's does. Those ranks may be waiting for this one, and nothing
  /// else would tell them that it has gone. An empty `farewell` takes the hook away.
  static void set_farewell(Bootstrap& bootstrap, std::function<void()> farewell) {
    bootstrap.farewell_ = std::move(farewell);
  }
  static void say_farewell(const Bootstrap& bootstrap) {
    if (bootstrap.farewell_) bootstrap.farewell_();
  }

  static void abandon(Bootstrap& bootstrap, const std::string& why, bool rank_lost) noexcept {
    bootstrap.abandon(why, rank_lost);
  }

  static std::unique_ptr<Bootstrap> part_of_node(Bootstrap& bootstrap,
                                                 const std::vector<int>& node_of_rank) {
    return bootstrap.part_of_node(node_of_rank);
  }

  /// From now on errors name the nodes of ranks. `names`: of each rank's node.
  static void set_node_names(Bootstrap& bootstrap, std::vector<std::string> names) {
    bootstrap.node_names_ = std::move(names);
  }

  /// While a Purpose exists, the calls of `bootstrap` serve `what`, such as the user's call. Ranks
  /// whose calls have different purposes are in different calls, and errors name the purposes.
  /// Purposes nest. `what` must outlive the object.
  class Purpose {
   public:
    Purpose(Bootstrap& bootstrap, const char* what) : bootstrap_(bootstrap) {
      bootstrap_.purposes_.push_back(what);
    }
    ~Purpose() { bootstrap_.purposes_.pop_back(); }
    Purpose(const Purpose&) = delete;
    Purpose& operator=(const Purpose&) = delete;

   private:
    Bootstrap& bootstrap_;
  };
};

}  // namespace plait
