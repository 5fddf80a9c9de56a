// The files that PLAIT_TRACE names: the event format of Chrome's tracing, which Perfetto reads.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/unique_fd.hpp"

namespace plait {

/// A file of one process, to which its communicators of one rank add their events. It is whole, as
/// JSON, after every `append`. All methods may be called from any thread.
class TraceFile {
 public:
  /// For rank `rank` of `ranks`: `trace.json` becomes `trace.rank3.json` where there are several
  /// ranks. Another communicator of this process gets the same object; where another process writes
  /// the file already, the name also gets this process's number. A file of an earlier run is
  /// overwritten. None, and a warning, if it can't be written.
  static std::shared_ptr<TraceFile> open(const std::string& path, int rank, int ranks);

  /// Events of this rank carry it as their process: ranks' files can be put together.
  int rank() const { return rank_; }
  /// Tells the file's communicators apart: 0, 1, ...
  int next_communicator() { return communicators_++; }
  /// JSON objects, each with ",\n" before it. Warns, once, if it can't be written.
  void append(std::string_view events);

  TraceFile(UniqueFd file, std::string path, int rank);  // for `open`

 private:
  void write_at_end(std::string_view text);
  void give_up(int error);  // an errno

  UniqueFd file_;  // locked as long as it is open
  std::string path_;
  int rank_;
  std::atomic<int> communicators_ = 0;
  std::mutex mutex_;
  off_t end_ = 0;  // of the last event
  bool failed_ = false;
};

/// As a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace plait
