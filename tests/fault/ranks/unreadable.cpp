// Ranks whose memory the peers can't read: it is not mapped, or the first thread has ended.
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fault/ranks/faults.hpp"

namespace plait::test {

void unmapped(const std::string& algorithm) {
  Member member(std::chrono::seconds(0), {});  // no deadline
  const std::size_t bytes = std::size_t{1} << 20;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (member.is_victim()) munmap(static_cast<std::byte*>(memory) + bytes / 2, bytes / 2);
  std::vector<std::byte> received(bytes);
  Communicator& comm = member.comm();
  const int after = (member.rank() + 1) % comm.size(),
            before = (member.rank() + comm.size() - 1) % comm.size();
  const std::string what = outcome([&] {
    const CallOptions options{.algorithm = algorithm};
    if (algorithm == "pull")
      comm.broadcast(memory, memory, bytes, DataType::u8, victim, {}, options);
    else
      comm.send_recv(memory, bytes, after, received.data(), bytes, before, DataType::u8, {},
                     options);
    comm.synchronize();
    for (;;) {  // a rank may be through before others find out
      if (auto broken = comm.async_error()) throw *std::move(broken);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  member.report(what);
}

void main_ended() {
  static Member member(std::chrono::seconds(10), {});
  std::thread([] {
    // The first thread has no memory any more once its process seems to be a zombie.
    for (std::string line; line.find(") Z") == std::string::npos;)
      std::getline(std::ifstream("/proc/self/stat"), line);
    Communicator& comm = member.comm();
    std::vector<float> mine(30000, 1), all(3 * mine.size());
    const int after = (member.rank() + 1) % comm.size(),
              before = (member.rank() + comm.size() - 1) % comm.size();
    for (const std::string algorithm : {"pull", "pairwise_pull"})
      member.report(algorithm + ": " + outcome([&] {
                      const CallOptions options{.algorithm = algorithm};
                      std::fill(all.begin(), all.end(), 0.0F);
                      if (algorithm == "pull")
                        comm.all_gather(mine.data(), all.data(), mine.size(), DataType::f32, {},
                                        options);
                      else
                        comm.send_recv(mine.data(), mine.size(), after, all.data(), mine.size(),
                                       before, DataType::f32, {}, options);
                      comm.synchronize();
                      if (all[mine.size() - 1] != 1) throw Error(ErrorCode::backend, "wrong data");
                    }));
    comm.bootstrap().barrier();
    std::_Exit(0);
  }).detach();
  pthread_exit(nullptr);
}

}  // namespace plait::test
