// Calls that don't block: what is kept from their beginning to the function of MPI that ends them.
//
// The program holds a request of MPI's for each, so that its handle is none of another request: a
// persistent one that receives from MPI_PROC_NULL and is never started.
#pragma once
#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interop/pmpi/served.hpp"
#include "plait/event.hpp"

namespace plait::pmpi {

/// A call and its data, to be made later, once or often.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual void begin(Communicator& own, const How& how) = 0;
  virtual void end() = 0;
};
template <class Call>
class OperationOf final : public Operation {
 public:
  OperationOf(Data sent, Data received, Call call)
      : sent_(std::move(sent)), received_(std::move(received)), call_(std::move(call)) {
    sent_.keep_type();
    received_.keep_type();
  }
  void begin(Communicator& own, const How& how) override {
    sent_.pack();
    received_.pack();
    call_(own, sent_, received_, how);
  }
  void end() override {
    sent_.unpack();
    received_.unpack();
  }

 private:
  Data sent_, received_;
  Call call_;
};

/// One thread at a time uses a request, as MPI asks, but `settle` may come from another one.
class Request {
 public:
  Request(Function function, Form form, Served& served, std::unique_ptr<Operation> operation)
      : function_(function), form_(form), served_(&served), operation_(std::move(operation)) {}

  void begin();
  /// If it can't begin, the program holds nothing of it.
  void begin_or_remove(MPI_Request& handle);
  /// Begun, and not ended.
  bool is_under_way() const noexcept { return under_way_; }
  bool is_persistent() const noexcept { return form_ == Form::persistent; }
  Function function() const noexcept { return function_; }
  const Served* served() const noexcept { return served_; }
  /// Whether `end` would wait. Does not wait.
  bool is_done();
  /// Waits, and puts what was received into its place. MPI_SUCCESS, or what the communicator's
  /// error handler was called with.
  int end() noexcept;
  /// Before the communicator ends: waits likewise; what came of it is for `end`.
  void settle() noexcept;

 private:
  void wait();

  Function function_;
  Form form_;
  Served* served_;  // null: settled
  std::unique_ptr<Operation> operation_;
  std::optional<Event> reached_;
  std::mutex mutex_;
  bool under_way_ = false;
  int result_ = MPI_SUCCESS;  // of one that was settled
};

/// The requests that the program holds.
class Requests {
 public:
  static Requests& instance();
  /// Cheap: most programs, most of the time, hold none.
  bool none() const noexcept { return held_.load(std::memory_order_relaxed) == 0; }
  MPI_Request add(std::unique_ptr<Request> request);
  /// Null: it is one of MPI's.
  Request* find(MPI_Request handle);
  void remove(MPI_Request& handle);
  /// Settles those of a communicator.
  void settle(const Served& served) noexcept;
  void free_spare() noexcept;

 private:
  std::mutex mutex_;
  std::unordered_map<MPI_Request, std::unique_ptr<Request>> all_;
  std::vector<MPI_Request> spare_;
  std::atomic<std::size_t> held_ = 0;
};

/// A call that begins at once, or, if it is persistent, by MPI_Start. `prepare(own, use)` as in
/// prepare.hpp.
template <class Prepare, class Mpi>
int serve_later(Function function, Form form, MPI_Comm comm, MPI_Request* handle,
                const Prepare& prepare, const Mpi& mpi) noexcept {
  return serve(
      function, form, comm,
      [&](Served& served, Communicator& own) {
        return prepare(own, [&](Data sent, Data received, auto call) {
          auto request =
              std::make_unique<Request>(function, form, served,
                                        std::make_unique<OperationOf<decltype(call)>>(
                                            std::move(sent), std::move(received), std::move(call)));
          Request& kept = *request;
          *handle = Requests::instance().add(std::move(request));
          if (form == Form::nonblocking) kept.begin_or_remove(*handle);
        });
      },
      mpi);
}

}  // namespace plait::pmpi
