// The error that breaks a communicator: who brings it about, and who hears of it.
#pragma once
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "communicator/resources/resources.hpp"
#include "plait/error.hpp"

namespace plait {

/// After CommunicatorResources::make_local.
class Faults {
 public:
  explicit Faults(CommunicatorResources& own) : own_(own) {}

  /// As Watchdog::await_error, which may sleep. Notes that the program has been told.
  std::optional<Error> tell_error() const;
  /// Throws that error, if there is one. From any thread.
  void throw_told() const;
  /// Only for the thread that uses the communicator, because it also gives up the bootstrap.
  void throw_if_broken() const {
    if (own_.watchdog->is_broken()) throw_broken();
    if (own_.other_nodes != nullptr) own_.other_nodes->channels().require_open();
  }
  /// The same, but looks at once. The monitor looks only every `monitor_period`.
  void look_and_throw() const;
  /// After a refusal, before a launch: finds out whether a call that this rank has published is one
  /// that another rank has refused, or the other way round. From any thread.
  void check_refusals() const {
    if (own_.watchdog->refusal_is_pending()) compare_and_throw();
  }
  void abort(std::string_view reason) const;
  /// The bootstrap's other ranks wait no longer for this one.
  void abandon(const Error& error) const;

  /// Lets all waits for other ranks end when the communicator breaks, or takes that away.
  void interrupt_waits();
  void leave_waits();

  /// A published call must also be enqueued, or the other ranks would take this rank's next call
  /// for it. So the communicator breaks if `body` throws.
  template <class Body>
  void must_enqueue(Body body) const {
    try {
      body();
    } catch (const std::exception& error) {
      throw_if_lost(error);
      abort(std::string("a call could not be enqueued: ") + error.what());
      throw;
    }
  }
  /// Runs `body`, which waits for work of the device, or asks for it.
  template <class Body>
  auto waiting(Body body) const {
    try {
      return body();
    } catch (const Error& error) {
      throw_if_lost(error);
      throw;
    }
  }

 private:
  void throw_broken() const;
  void compare_and_throw() const;
  void throw_if_lost(const std::exception& failure) const;

  CommunicatorResources& own_;
};

}  // namespace plait
