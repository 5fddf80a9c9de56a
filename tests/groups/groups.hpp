// Shared by the tests of groups: ranks with messages to reduce, and groups of which nothing runs.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "groups/messages.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {

inline void expect_nothing_enqueued(Communicator& comm, Messages& messages,
                                    const Statistics& before) {
  EXPECT_EQ(comm.statistics().calls, before.calls);
  EXPECT_EQ(comm.statistics().launches, before.launches);
  messages.expect_untouched();
  Group group;  // and the next group works
  messages.call_all();
  group.end();
  messages.expect_right();
}

class Groups : public ForRanks {
 protected:
  /// `body(comm, arena, messages)` with messages in ordinary memory.
  void run(const std::vector<std::size_t>& counts,
           const std::function<void(Communicator&, Arena&, Messages&)>& body) {
    ForRanks::run([&](Communicator& comm, Arena& arena) {
      Messages messages(comm, arena.send, arena.recv, counts);
      messages.fill(1);
      body(comm, arena, messages);
    });
  }
  /// What `body` tries is refused: nothing of it is enqueued, and the next group works.
  void run_refused(const std::vector<std::size_t>& counts,
                   const std::function<void(Communicator&, Messages&)>& body) {
    run(counts, [&](Communicator& comm, Arena&, Messages& messages) {
      const Statistics before = comm.statistics();
      body(comm, messages);
      expect_nothing_enqueued(comm, messages, before);
    });
  }
};

}  // namespace plait::test
