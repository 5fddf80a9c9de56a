// The group that is open on a thread, between ncclGroupStart and ncclGroupEnd: a group of Plait for
// the calls that move data, and jobs for those that make or end communicators.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interop/nccl/async_jobs.hpp"
#include "interop/nccl/comm.hpp"
#include "interop/nccl/errors.hpp"

namespace plait::nccl {

class Group {
 public:
  static Group& of_thread();

  bool is_open() const noexcept { return depth_ > 0; }
  void start();
  Result end() noexcept;
  /// Ends the group without its calls. Returns their estimated time in microseconds.
  Result simulate(float& microseconds) noexcept;

  /// The group fails at its end, and nothing of it is enqueued.
  void poison(Result result) noexcept;
  void add(Job job) { jobs_.push_back(std::move(job)); }
  /// For the end, after the calls have been enqueued.
  void add(const std::shared_ptr<Comm>& comm, const Call& call);
  /// Notes the memory of a message. False, and notes nothing, if it overlaps that of an earlier
  /// message, and one of both writes: Plait would refuse the group. True outside a group.
  bool use(const void* buffer, const Call& message, bool writes);
  void await_at_end(const std::shared_ptr<Comm>& comm);
  void then(std::function<void(bool enqueued)> act) { after_.push_back(std::move(act)); }

 private:
  struct Counted {
    std::shared_ptr<Comm> comm;
    Call call;
  };
  struct Failure {
    Result result;
    std::string sentence;
  };
  /// Places in memory, sorted and apart.
  class Places {
   public:
    bool meet(std::uintptr_t begin, std::uintptr_t end) const;
    void add(std::uintptr_t begin, std::uintptr_t end);
    void clear() { all_.clear(); }

   private:
    struct Place {
      std::uintptr_t begin, end;
    };
    std::vector<Place> all_;
  };
  Result enqueue() noexcept;
  void discard(const std::function<void()>& drop_calls) noexcept;
  void clear() noexcept;

  int depth_ = 0;
  std::optional<Failure> failure_;
  std::vector<Job> jobs_;
  std::vector<Counted> calls_;
  std::vector<std::shared_ptr<Comm>> awaited_;
  std::vector<std::function<void(bool)>> after_;
  Places read_, written_;  // by messages
};

/// As `guarded`, for a call that belongs to the open group, if there is one: its error is the
/// group's.
template <class Body>
Result grouped(const char* call, Body&& body) noexcept {
  const Result result = guarded(call, body);
  if (result != Result::success) Group::of_thread().poison(result);
  return result;
}

/// Runs the job, now or at the end of the open group.
Result run_or_add(Job job) noexcept;

}  // namespace plait::nccl
