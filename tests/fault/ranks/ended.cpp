// Ranks whose process ends, is killed or aborts.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "fault/ranks/faults.hpp"

namespace plait::test {

void killed(const std::string& algorithm, bool all) {
  Member member(std::chrono::seconds(0), algorithm);  // no deadline
  const std::string what = outcome([&] {
    member.begin();  // at whose end others may still meet when the victim has left
    if (!all && member.is_victim()) std::raise(SIGKILL);
    if (all) {
      static_cast<void>(outcome([&] { member.reduce(); }));  // others may be gone already
      std::raise(SIGKILL);
    }
    member.reduce();
    if (member.rank() == 0) {
      while (!member.comm().test()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      member.comm().wait_any({StreamRef()});
    }
  });
  member.report(what);
}

void gone() {
  std::string what = outcome([] {
    Member member(std::chrono::seconds(0), {});
    member.begin();
    if (member.is_victim()) std::_Exit(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  say(-1, what);
}

/// MPI loses no rank, so all end in good order. What the victim has made before is not
/// disturbed.
void exits() {
  Member member(std::chrono::seconds(0), {});
  member.begin();
  member.reduce();
  if (member.is_victim()) {
    member.comm().synchronize();
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): not while another thread does
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  member.report("before " + outcome([&] { member.comm().synchronize(); }));
  member.report(outcome([&] {
    member.reduce();
    member.comm().synchronize();
  }));
}

void aborted(bool checked) {
  if (checked)
    setenv("PLAIT_CHECK", "1", 1);  // NOLINT(concurrency-mt-unsafe): there is no other thread yet
  int rank = 0;
  {
    Member member(std::chrono::seconds(0), {});
    rank = member.rank();
    // The abort may find the others where the victim has just been, in `begin`.
    const auto call = [&] {
      member.begin();
      if (member.is_victim()) member.comm().abort("enough");
      else if (checked) member.reduce();
      else static_cast<void>(member.comm().allocate<float>(1000));
    };
    if (member.is_victim()) call();
    else member.report("call: " + outcome(call));
    member.report("then " + outcome([&] { member.reduce(); }));
  }
  say(rank, "new: " + outcome([] { Member(std::chrono::seconds(20), {}).begin(); }));
}

void creates() {
  for (int i = 0; i < 10; ++i) Member(std::chrono::seconds(5), {}).begin();
}

}  // namespace plait::test
