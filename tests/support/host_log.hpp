// Launches that are no launches: only what their blocks would leave behind.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/host/host_log.hpp"
#include "communicator/observe/progress.hpp"

namespace plait::test {

/// The log of a communicator on the host target, and its writer.
class WrittenLog {
 public:
  explicit WrittenLog(bool with_spans = true)
      : backend_(open_backend(BackendKind::host, 0)), log_(backend_, with_spans) {
    log_.put_into(watch_);
  }
  BlockLog& log() { return log_; }
  Watch& watch() { return watch_; }

  void start(unsigned block, unsigned thread = 0) {
    log_start<host::LogOps>(watch_, block, thread);
  }
  void end(std::uint64_t call, unsigned block, unsigned blocks, unsigned thread = 0) {
    Watch watch = watch_;
    watch.call = call;
    log_end<host::LogOps>(watch, block, blocks, thread);
  }
  /// Calls `first` to `last` of one launch each, with `blocks` blocks that run one after another.
  void run(std::uint64_t first, std::uint64_t last, unsigned blocks) {
    for (std::uint64_t call = first; call <= last; ++call)
      for (unsigned block = 0; block < blocks; ++block) {
        start(block);
        end(call, block, blocks);
      }
  }
  std::vector<BlockLog::Span> take(std::uint64_t& lost) {
    std::vector<BlockLog::Span> spans;
    lost = log_.take_spans(spans).lost;
    return spans;
  }

 private:
  std::shared_ptr<Backend> backend_;
  BlockLog log_;
  Watch watch_;
};

}  // namespace plait::test
