// The files of PLAIT_TRACE, in the event format of Chrome's tracing, which Perfetto reads.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/unique_fd.hpp"

namespace plait {

/// One process's file for one rank, to which its communicators append their events. After every
/// `append` the file is complete JSON. Any thread may call any method.
class TraceFile {
 public:
  /// Opens the file for rank `rank` of `ranks`. If there are several ranks, `trace.json` becomes
  /// `trace.rank3.json`. Another communicator of this process gets the same object. If another
  /// process is writing the file, the name also gets this process's number. A file of an earlier
  /// run is overwritten. If the file can't be written: null, and a warning.
  static std::shared_ptr<TraceFile> open(const std::string& path, int rank, int ranks);

  /// Events carry this number as their process, so files of several ranks can be joined.
  int rank() const { return rank_; }
  /// Returns a number that tells the file's communicators apart: 0, 1, ...
  int add_communicator() { return communicators_++; }
  /// `events`: JSON objects, each with ",\n" before it. Warns once if the file can't be written.
  void append(std::string_view events);

  TraceFile(UniqueFd file, std::string path, int rank);  // for `open`

 private:
  void write_at_end(std::string_view text);
  void give_up(int error);  // an errno

  UniqueFd file_;  // locked while it is open
  std::string path_;
  int rank_;
  std::atomic<int> communicators_ = 0;
  std::mutex mutex_;
  off_t end_ = 0;  // behind the last event
  bool failed_ = false;
};

/// The text as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace plait
